package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// get returns the link to the runner, a new one where the old one is lost. It starts a runner where
// there is none.
func (r *Remote) get() (*link, error) {
	r.connecting.Lock()
	defer r.connecting.Unlock()
	if r.ctx.Err() != nil {
		return nil, os.ErrClosed
	}
	former := r.newest()
	if former != nil && former.alive() {
		return former, nil
	}
	var l *link
	var err error
	for range connectTries {
		if l, err = r.connect(former); errors.Is(err, errForeign) {
			r.evict(err)
		} else if !gone(err) {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		return nil, r.misses(fmt.Errorf("connect to runner: %w", err))
	}
	if former != nil && former.instance != l.instance {
		r.renew()
	}
	r.link, r.links, r.missed = l, r.links+1, Standing{}
	r.declare()
	go l.receive()
	if l.toLeave {
		r.config.Logger.Info("the runner is of another build, or lacks capabilities of this worker: the worker leaves it once it has no job", "pid", l.pid)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.leaveIdle()
	}
	return l, nil
}

// newest is the newest link, which may be lost; nil: there was none yet.
func (r *Remote) newest() *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.link
}

// connectTries is how often get tries again when a runner ends in the middle of it: each time the
// runner is closer to its end, and the next one is new.
const connectTries = 5

// gone tells whether a runner ended while it was being greeted.
func gone(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF)
}

// errForeign is about a process that listens in the runner's place, and is not the runner.
var errForeign = errors.New("it is not this worker's runner")

// runners are the runners that the worker accepts; nil: all.
func (r *Remote) runners() (known []string) {
	if l := r.newest(); l != nil {
		return []string{l.instance}
	}
	return r.config.Runners
}

// takes tells whether the process that was called may be one of the worker's runners, whatever its name.
func (r *Remote) takes(conn *called, name func(known string) bool) bool {
	known := r.runners()
	return conn.launched != 0 || known == nil || slices.ContainsFunc(known, name)
}

// evict takes away the socket of a process that is not the worker's runner, so that one is started.
// Where the worker has a runner, or waits for one, that is an error. Where it has none, the process
// may be a runner that a former worker started for nothing, and that is about to end.
func (r *Remote) evict(err error) {
	level := slog.LevelInfo
	known := r.runners()
	if len(known) > 0 {
		level = slog.LevelError
		r.mu.Lock()
		if r.link == nil {
			r.displaced = known[0]
		}
		r.mu.Unlock()
	}
	r.config.Logger.Log(context.Background(), level, "another process listens in the runner's place; starting a new runner",
		"error", err, "runner", strings.Join(known, " "))
	if err := os.Remove(filepath.Join(r.config.Dir, wire.SocketFile)); err != nil {
		r.config.Logger.Error("its socket can't be removed", "error", err)
	}
}

// connect makes a link, behind a lost one. Callers must hold r.connecting.
func (r *Remote) connect(former *link) (*link, error) {
	conn, err := r.config.dial()
	if err != nil {
		return nil, err
	}
	foreign := fmt.Errorf("process %d (%s): %w", conn.peer, proc.Program(conn.peer), errForeign)
	if !r.takes(&conn, conn.is) {
		return nil, errors.Join(foreign, conn.Close())
	}
	// Close does not wait for the runner's answer.
	stop := context.AfterFunc(r.ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer stop()
	out, in := wire.NewOutbox(conn.UnixConn), wire.NewReader(conn)
	hello, err := greet(conn.UnixConn, out, in)
	if errors.Is(err, errSilent) {
		thaw(conn.peer, nil)
	}
	if err == nil && !(conn.is(hello.Instance) && r.takes(&conn, func(known string) bool { return known == hello.Instance })) {
		err = foreign
	}
	if err != nil {
		out.Close()
		return nil, errors.Join(err, conn.Close())
	}
	return newLink(r, former, conn.UnixConn, out, in, &hello), nil
}

// rejoin goes on with the processes of a lost link: with the same runner, if only the connection
// was lost, which newLink sees to; else with what is left of them.
func (r *Remote) rejoin(lost *link) {
	var n notices
	defer func() { n.make() }()
	began := time.Now()
	next, err := r.get()
	for errors.Is(err, errSilent) { // the runner is there, and has them
		next, err = r.get()
	}
	if r.ctx.Err() != nil || errors.Is(err, os.ErrClosed) {
		return // the next worker hears of them
	}
	lost.mu.Lock()
	processes := lost.processes // which nobody takes up but this goroutine
	lost.processes = nil
	lost.mu.Unlock()
	same := err == nil && next.instance == lost.instance
	after := time.Since(began).Round(time.Millisecond)
	switch {
	case same:
		r.config.Logger.Warn("the runner is connected again", "after", after)
	case err != nil:
		r.config.Logger.Error("runner is lost; the outcome of its jobs is unknown",
			"jobs", len(processes), "error", err)
	default:
		r.config.Logger.Error("runner is lost; the outcome of its jobs is unknown", "jobs", len(processes))
		r.config.Logger.Warn("another runner starts the jobs from now on", "after", after)
	}
	for _, p := range processes {
		if same && !jobexec.IsClosed(p.begun) {
			p.end(fmt.Errorf("the request was lost: %w", jobexec.ErrRunnerChanged), &n)
		} else {
			p.orphan(r, &n)
		}
	}
}

// leaveTimeout is how long Close waits for a runner that does not answer.
const leaveTimeout = 5 * time.Second

// Close leaves the runner, which goes on with its jobs. It may be called more than once.
func (r *Remote) Close() error {
	r.leave()
	r.connecting.Lock() // what is being connected is there by then, or never
	l := r.newest()
	r.connecting.Unlock()
	if l != nil {
		l.close(leaveTimeout)
	}
	return nil
}

// A runner of another build goes on with what it has, and with new starts. The worker leaves it at a
// moment at which it has nothing: no job, and no outcome that is not journalled. The runner ends by
// itself then, and get starts one of this build.

// replaceWait is how long the worker waits for such a runner to end, before it connects again.
const replaceWait = 200 * time.Millisecond

// leaveIdle begins to leave a runner of another build, where it has nothing. Callers must hold l.mu.
func (l *link) leaveIdle() {
	if l.toLeave && !l.leaving && len(l.owed) == 0 && l.alive() {
		l.leaving = true
		go l.of.replace(l)
	}
}

// replace leaves such a runner, and connects to another one.
func (r *Remote) replace(l *link) {
	l.close(leaveTimeout)
	select {
	case <-time.After(replaceWait):
	case <-r.ctx.Done():
		return
	}
	if _, err := r.get(); err != nil && r.ctx.Err() == nil {
		r.config.Logger.Warn("no other runner can be started now", "error", err)
	}
}

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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// connector has the link to the runner, and makes a new one where it is lost.
type connector struct {
	config Config
	bootID string
	ctx    context.Context // ends when close was called
	leave  context.CancelFunc
	left   atomic.Bool // something was read from disk of a runner that is gone

	standing standing
	pools    pools

	mu     sync.Mutex
	closed bool
	link   *link // nil: there was none yet

	instance  string // the runner of the newest link
	displaced string // the runner of the journal in whose place the start found another process
}

// get returns the link to the runner, a new one where the old one is lost. It starts a runner where
// there is none.
func (c *connector) get() (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, os.ErrClosed
	}
	if c.link != nil && c.link.alive() {
		return c.link, nil
	}
	var l *link
	var err error
	for range connectTries {
		if l, err = c.connect(); errors.Is(err, errForeign) {
			c.evict(err)
		} else if !gone(err) {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("connect to runner: %w", err)
		c.standing.missed(err)
		return nil, err
	}
	if c.link != nil && c.link.instance != l.instance {
		c.pools.renew()
	}
	c.link, c.instance = l, l.instance
	c.standing.met(l)
	c.declare()
	if l.other {
		c.replaceSoon(l)
	}
	return l, nil
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

// runners are those that the worker takes for its own, if it does not take any.
func (c *connector) runners() (known []string, all bool) {
	if c.instance != "" {
		return []string{c.instance}, false
	}
	return c.config.Runners, c.config.Runners == nil
}

// mayBe tells whether the process that was called may be one of the worker's runners.
func (c *connector) mayBe(conn *called) bool {
	known, all := c.runners()
	return conn.launched != 0 || all || slices.ContainsFunc(known, conn.is)
}

// isRunner tells whether the process that was called is the runner that it says it is, and the worker's.
func (c *connector) isRunner(conn *called, says string) bool {
	known, all := c.runners()
	return conn.is(says) && (conn.launched != 0 || all || slices.Contains(known, says))
}

// evict takes away the socket of a process that is not the worker's runner, so that one is started.
// Where the worker has a runner, or waits for one, that is an error. Where it has none, the process
// may be a runner that a former worker started for nothing, and that is about to end.
func (c *connector) evict(err error) {
	level := slog.LevelInfo
	known, _ := c.runners()
	if len(known) > 0 {
		level = slog.LevelError
		if c.instance == "" {
			c.displaced = known[0]
		}
	}
	c.config.Logger.Log(context.Background(), level, "another process listens in the place of the runner; a runner is started",
		"error", err, "runner", strings.Join(known, " "))
	if err := os.Remove(filepath.Join(c.config.Dir, wire.SocketFile)); err != nil {
		c.config.Logger.Error("its socket can't be removed", "error", err)
	}
}

// connect makes a link. Callers must hold c.mu.
func (c *connector) connect() (*link, error) {
	conn, err := c.config.dial()
	if err != nil {
		return nil, err
	}
	foreign := fmt.Errorf("process %d (%s): %w", conn.peer, proc.Program(conn.peer), errForeign)
	if !c.mayBe(&conn) {
		return nil, errors.Join(foreign, conn.Close())
	}
	// close does not wait for the runner's answer.
	stop := context.AfterFunc(c.ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer stop()
	out, in := wire.NewOutbox(conn.UnixConn), wire.NewReader(conn)
	hello, err := greet(conn.UnixConn, out, in)
	if err == nil && !c.isRunner(&conn, hello.Instance) {
		err = foreign
	}
	if err != nil {
		out.Close()
		return nil, errors.Join(err, conn.Close())
	}
	return newLink(c, conn.UnixConn, out, in, &hello), nil
}

// rejoin goes on with the processes of a lost link: with the same runner, if only the connection
// was lost, which newLink sees to; else with what is left of them.
func (c *connector) rejoin(lost *link) {
	var n notices
	defer func() { n.make() }()
	began := time.Now()
	next, err := c.get()
	for errors.Is(err, errSilent) { // the runner is there, and has them
		next, err = c.get()
	}
	if c.ctx.Err() != nil || errors.Is(err, os.ErrClosed) {
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
		c.config.Logger.Warn("the runner is connected again", "after", after)
	case err != nil:
		c.config.Logger.Error("runner is lost; the outcome of what it ran can't be known",
			"jobs", len(processes), "error", err)
	default:
		c.config.Logger.Error("runner is lost; the outcome of what it ran can't be known", "jobs", len(processes))
		c.config.Logger.Warn("another runner starts the jobs from now on", "after", after)
	}
	for _, p := range processes {
		if same && !isClosed(p.begun) {
			p.end(fmt.Errorf("the request was lost: %w", jobexec.ErrRunnerChanged), &n)
		} else {
			p.orphan(c, &n)
		}
	}
}

// leaveTimeout is how long close waits for a runner that does not answer.
const leaveTimeout = 5 * time.Second

// close ends the connection. It may be called more than once.
func (c *connector) close() {
	c.leave()
	c.mu.Lock()
	c.closed = true
	l := c.link
	c.mu.Unlock()
	if l != nil {
		l.close(leaveTimeout)
	}
}

// forget passes a forget on. What a runner that is gone by now had to forget went with it.
func (c *connector) forget(id wire.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link.forget(id)
}

// A runner of another build goes on with what it has, and with new starts. The worker leaves it at a
// moment at which it has nothing: no job, and no outcome that is not journalled. The runner ends by
// itself then, and get starts one of this build.

// replaceWait is how long the worker waits for such a runner to end, before it connects again.
const replaceWait = 200 * time.Millisecond

// replaceSoon has a runner of another build replaced as soon as it has nothing. Callers must hold c.mu.
func (c *connector) replaceSoon(l *link) {
	c.config.Logger.Info("the runner is of another build: it is left as soon as it has no job", "pid", l.pid)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.toLeave = true
	l.leaveIdle()
}

// leaveIdle begins to leave a runner of another build, where it has nothing. Callers must hold l.mu.
func (l *link) leaveIdle() {
	if l.toLeave && !l.leaving && len(l.owed) == 0 && l.alive() {
		l.leaving = true
		go l.of.replace(l)
	}
}

// replace leaves such a runner, and connects to another one.
func (c *connector) replace(l *link) {
	l.close(leaveTimeout)
	select {
	case <-time.After(replaceWait):
	case <-c.ctx.Done():
		return
	}
	if _, err := c.get(); err != nil && c.ctx.Err() == nil {
		c.config.Logger.Warn("no other runner can be had for now", "error", err)
	}
}

package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// How a worker comes to its runner: it finds the one that is there or starts one, makes a link, and
// leaves a runner of another build; and it looks after jobs that others have stopped on their way.

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
		r.config.Logger.Info("the runner is of another build, or lacks capabilities of this worker: it is replaced once it has no job", "pid", l.pid)
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

// logFile takes what the runner writes to stdout and stderr. It is a file because a pipe's reader
// may be gone before the runner.
const logFile = "runner.log"

// Config says where a worker's runner is and how to start it.
type Config struct {
	Dir     string   // the journal's folder
	Path    string   // of a program that serves the socket at wire.SocketDescriptor
	Command []string // its arguments; the first is the name that it goes by
	Logger  *slog.Logger

	// Runners are those that jobs under way were announced for, by the journal. At the start no other
	// is taken for the worker's. nil: any is, as nobody has a journal.
	Runners []string

	// Pulse is told how the loop goes that reads what the runner says; nil: nobody is.
	Pulse jobexec.Pulse

	// OnReady is called for each pool when the standing of any may have changed, with why it can't start
	// jobs, or "" where it can; it must not block. nil: nobody listens.
	OnReady func(target string, mode jobexec.Mode, why string)
}

// called is a connection, and the process at its other end, as the kernel names it: the one that
// listens.
type called struct {
	*net.UnixConn
	peer     int
	launched int // the runner that was started for it; 0: none was
}

// dial connects to the runner, and starts one where there is none.
func (c *Config) dial() (called, error) {
	conn, err := c.dialRunning()
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
		return c.launch()
	}
	return conn, err
}

// dialRunning connects to a runner that is there.
func (c *Config) dialRunning() (called, error) {
	address, folder, err := c.address()
	if err != nil {
		return called{}, err
	}
	defer folder.Close()
	conn, err := net.DialUnix("unix", nil, address)
	if err != nil {
		return called{}, err
	}
	peer, err := wire.Peer(conn)
	if err != nil {
		return called{}, errors.Join(err, conn.Close())
	}
	return called{UnixConn: conn, peer: peer}, nil
}

// is tells whether the listener is the runner of that name and, where the worker has started a runner, that
// one. A runner just started may not have called listen yet: then the kernel names this worker, which made
// the socket. Where start times can't be seen the process id counts.
func (c *called) is(runner string) bool {
	pid, startTime, named := wire.ProcessOf(runner)
	if c.launched != 0 && c.peer == os.Getpid() {
		return pid == c.launched
	}
	seen := proc.StartTime(c.peer)
	return !named || pid == c.peer && (seen == startTime || seen == 0) && (c.launched == 0 || pid == c.launched)
}

// address is the socket's address by way of a descriptor of its folder: a socket's path may have
// 107 bytes only, a folder's any number.
func (c *Config) address() (address *net.UnixAddr, folder *os.File, err error) {
	folder, err = os.Open(c.Dir)
	if err != nil {
		return nil, nil, err
	}
	name := filepath.Join("/proc/self/fd", fmt.Sprint(folder.Fd()), wire.SocketFile)
	return &net.UnixAddr{Net: "unix", Name: name}, folder, nil
}

// launch starts a runner and connects to it. It makes the socket and hands it over, so that
// connecting needs no waiting; the journal's lock keeps other workers from doing the same.
func (c *Config) launch() (conn called, err error) {
	path := filepath.Join(c.Dir, wire.SocketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return conn, fmt.Errorf("start runner: %w", err)
	}
	address, folder, err := c.address()
	if err != nil {
		return conn, fmt.Errorf("start runner: %w", err)
	}
	defer folder.Close()
	listener, err := net.ListenUnix("unix", address)
	if err != nil {
		return conn, fmt.Errorf("start runner: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	defer listener.Close()
	if err := os.Chmod(path, 0o600); err != nil {
		return conn, fmt.Errorf("start runner: %w", err)
	}
	pid, err := c.spawn(listener)
	if err != nil {
		return conn, fmt.Errorf("start runner: %w", errors.Join(err, os.Remove(path)))
	}
	conn, err = c.dialRunning()
	conn.launched = pid
	return conn, err
}

// spawn starts the runner's process in a session of its own, so that nothing that ends the worker's
// session or group ends it.
func (c *Config) spawn(listener *net.UnixListener) (pid int, err error) {
	socket, err := listener.File()
	if err != nil {
		return 0, err
	}
	defer socket.Close()
	log, err := os.OpenFile(filepath.Join(c.Dir, logFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	err = proc.WithTimers(proc.LateTimers, func() error {
		process, err := os.StartProcess(c.Path, c.Command, &os.ProcAttr{
			Dir:   c.Dir,
			Env:   slices.DeleteFunc(os.Environ(), isOwn),
			Files: []*os.File{wire.SocketDescriptor: socket, 0: null, 1: log, 2: log},
			Sys:   &syscall.SysProcAttr{Setsid: true, AmbientCaps: proc.PassedCapabilities()},
		})
		if err == nil {
			pid = process.Pid
			go reap(process)
		}
		return err
	})
	return pid, err
}

// reap waits for a runner that ends before its worker does.
func reap(process *os.Process) { _, _ = process.Wait() }

// isOwn tells the worker's own variables, passwords among them, and what the service manager says to
// the worker alone. A runner has no use for them.
func isOwn(variable string) bool {
	return slices.ContainsFunc([]string{"JOBD_", "NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES="}, func(prefix string) bool {
		return strings.HasPrefix(variable, prefix)
	})
}

// A child of the runner has the account of its job for some microseconds before it executes the program. Any
// job of that account may stop it then. The runner waits for the program, soon with all of its threads, and
// starts nothing for anybody: so the worker looks after such children. Where there is no worker, the next one
// does, as soon as it finds that the runner does not answer.

// How often the worker looks, and where it has just found one; and how often it lets the same one go on: then
// the job is killed, which costs only the account that stops it again and again.
const (
	guardRest = time.Second
	guardNext = 20 * time.Millisecond
	mostThaws = 10
)

// guard does so until the link is lost.
func (l *link) guard() {
	thaws := make(map[int]int) // of the children that were found at the looks just before
	for wait := guardRest; ; {
		select {
		case <-l.lost:
			return
		case <-time.After(wait):
		}
		before := wait
		if thaws, wait = thaw(l.pid, thaws), guardRest; len(thaws) > 0 {
			wait = guardNext
		}
		if wait == guardNext && before == guardRest { // a line for all that are found one behind the other
			l.of.config.Logger.Warn("a job was stopped before its program was executed, probably by another job of its account; it was continued")
		}
	}
}

// thaw lets the children of a runner go on that were stopped before they had a program: until then they have
// the runner's memory, and its command line. It gives how often it has done so for each.
func thaw(runner int, before map[int]int) (thaws map[int]int) {
	thaws = make(map[int]int)
	for pid, child := range proc.Children(runner) {
		if !child.Stopped || commandLine(pid) != commandLine(runner) {
			continue
		}
		if thaws[pid] = before[pid] + 1; thaws[pid] > mostThaws {
			_ = unix.Kill(pid, unix.SIGKILL)
		} else {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
	return thaws
}

func commandLine(pid int) string {
	words, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(words)
}

package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

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

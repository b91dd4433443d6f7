package runner

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	jobexec "jobd/exec"
	"jobd/journal"
)

// socketFile is the runner's socket in the journal's folder.
const socketFile = "runner.sock"

// logFile takes what the runner has to say. It is a file because a pipe's reader may
// be gone before the runner.
const logFile = "runner.log"

// Config says where a worker's runner is and how to start it.
type Config struct {
	Dir     string   // the journal's folder
	Command []string // starts a runner, which serves the socket that is its descriptor 3
	Logger  *slog.Logger
}

// Remote starts jobs through a runner process, which outlives the worker. Its
// methods are safe for concurrent use.
type Remote struct {
	config Config
	local  *Local // to find processes whose runner is gone

	mu       sync.Mutex
	closed   bool
	link     *link // nil: no runner is connected
	recalled []jobexec.Recalled
}

// Open connects to the runner that a former worker left, or starts one.
func Open(c Config) (*Remote, error) {
	local, err := NewLocal()
	if err != nil {
		return nil, err
	}
	r := &Remote{config: c, local: local}
	l, err := r.connect()
	if err != nil {
		return nil, errors.Join(err, local.Close())
	}
	r.recalled = l.recalled
	return r, nil
}

// Close leaves the runner, which goes on with its jobs. It may be called more than once.
func (r *Remote) Close() error {
	r.mu.Lock()
	r.closed = true
	l := r.link
	r.mu.Unlock()
	if l != nil {
		l.close()
	}
	if err := r.local.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Instance implements jobexec.Keeper. It starts a runner where there is none.
func (r *Remote) Instance() (string, error) {
	l, err := r.connect()
	if err != nil {
		return "", err
	}
	return l.instance, nil
}

// Recall implements jobexec.Keeper.
func (r *Remote) Recall() []jobexec.Recalled { return r.recalled }

// Forget implements jobexec.Keeper. What a runner that is gone by now had to forget went with it.
func (r *Remote) Forget(job int64, attempt int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.link.forget(id{job, attempt})
}

// Adopt implements jobexec.Runner.
func (r *Remote) Adopt(started journal.Started) (jobexec.Process, bool) {
	return r.local.Adopt(started)
}

// Start implements jobexec.Runner.
func (r *Remote) Start(spec jobexec.Spec) (jobexec.Process, error) {
	l, err := r.connect()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w: %w", spec.Argv[0], jobexec.ErrRunnerChanged, err)
	}
	if l.instance != spec.Runner {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], jobexec.ErrRunnerChanged)
	}
	return l.start(spec)
}

// connect gives the link to the runner, a new one where the old one is lost.
func (r *Remote) connect() (*link, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, os.ErrClosed
	}
	if r.link != nil && r.link.alive() {
		return r.link, nil
	}
	var l *link
	var err error
	for range connectTries {
		if l, err = r.reach(); !gone(err) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("connect to runner: %w", err)
	}
	r.link = l
	return l, nil
}

// rejoin goes on with the processes of a connection that was lost: with the same runner, if it was only
// the connection; else with what is left of them.
func (r *Remote) rejoin(lost *link, processes map[id]*remoteProcess) {
	found := make(map[id]*remoteProcess)
	next, err := r.connect()
	same := err == nil && next.instance == lost.instance
	if same {
		for _, recalled := range next.recalled {
			found[id{recalled.Job, recalled.Attempt}] = recalled.Process.(*remoteProcess)
		}
	} else {
		r.config.Logger.Error("runner is lost; the outcome of what it ran can't be known", "jobs", len(processes), "error", err)
	}
	for id, p := range processes {
		switch {
		case found[id] != nil:
			p.pass(found[id])
		case same && !p.isBegun():
			p.begin(journal.Started{}, fmt.Errorf("the request was lost: %w", jobexec.ErrRunnerChanged))
		default:
			p.orphaned(r.local)
		}
	}
}

// connectTries is how often a runner that goes away in the middle of it is
// tried again: each time it is closer to its end, and the next one is a new one.
const connectTries = 5

// gone tells whether a runner ended while it was being greeted.
func gone(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF)
}

// reach makes a link to the runner, a new one where there is none.
func (r *Remote) reach() (*link, error) {
	conn, err := r.dial()
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
		conn, err = r.launch()
	}
	if err != nil {
		return nil, err
	}
	l, err := newLink(conn, r.config.Logger, r.rejoin)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return l, nil
}

// address is the socket's address by way of a descriptor of its folder: a
// socket's path may have 107 bytes only, a folder's any number.
func (r *Remote) address() (address *net.UnixAddr, folder *os.File, err error) {
	folder, err = os.Open(r.config.Dir)
	if err != nil {
		return nil, nil, err
	}
	name := filepath.Join("/proc/self/fd", fmt.Sprint(folder.Fd()), socketFile)
	return &net.UnixAddr{Net: "unix", Name: name}, folder, nil
}

func (r *Remote) dial() (*net.UnixConn, error) {
	address, folder, err := r.address()
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	conn, err := net.DialUnix("unix", nil, address)
	if err != nil {
		return nil, err
	}
	if err := checkPeer(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// launch starts a runner. The socket is made here and handed over, so that
// connecting needs no waiting; the journal's lock keeps others from doing the same.
func (r *Remote) launch() (*net.UnixConn, error) {
	path := filepath.Join(r.config.Dir, socketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	address, folder, err := r.address()
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	defer folder.Close()
	listener, err := net.ListenUnix("unix", address)
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	defer listener.Close()
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	if err := r.spawn(listener); err != nil {
		return nil, fmt.Errorf("start runner: %w", errors.Join(err, os.Remove(path)))
	}
	return r.dial()
}

// spawn starts the runner's process in a session of its own, so that nothing that
// ends the worker's session or group ends it.
func (r *Remote) spawn(listener *net.UnixListener) error {
	socket, err := listener.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	log, err := os.OpenFile(filepath.Join(r.config.Dir, logFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	process, err := os.StartProcess(r.config.Command[0], r.config.Command, &os.ProcAttr{
		Dir:   r.config.Dir,
		Env:   slices.DeleteFunc(os.Environ(), isSecret),
		Files: []*os.File{r.local.null, log, log, socket},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	go bury(process)
	return nil
}

// bury waits for a runner that ends before its worker does.
func bury(process *os.Process) { _, _ = process.Wait() }

// isSecret tells variables that a runner has no use for: the worker's own, with
// passwords among them.
func isSecret(variable string) bool {
	return strings.HasPrefix(variable, "JOBD_")
}

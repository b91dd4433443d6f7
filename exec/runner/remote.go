package runner

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

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
	Path    string   // of the program that is a runner, which serves the socket that is its descriptor 3
	Command []string // its arguments; the first is the name that it goes by
	Logger  *slog.Logger
}

// Remote starts jobs through a runner process, which outlives the worker. Its
// methods are safe for concurrent use.
type Remote struct {
	config  Config
	bootID  string
	closing chan struct{} // closed when Close was called
	leaving sync.Once

	mu       sync.Mutex
	closed   bool
	link     *link // nil: no runner is connected
	recalled []jobexec.Recalled
}

// Open connects to the runner that a former worker left, or starts one.
func Open(c Config) (*Remote, error) {
	bootID, err := BootID()
	if err != nil {
		return nil, err
	}
	if err := keepDescriptors(); err != nil {
		return nil, err
	}
	r := &Remote{config: c, bootID: bootID, closing: make(chan struct{})}
	l, err := r.connect()
	if err != nil {
		return nil, err
	}
	for id, p := range l.recalled {
		r.recalled = append(r.recalled, jobexec.Recalled{Job: id.Job, Attempt: id.Attempt, Process: p})
	}
	return r, nil
}

// leaveTimeout is how long Close waits for a runner that does not answer.
const leaveTimeout = 5 * time.Second

// Close leaves the runner, which goes on with its jobs. It may be called more than once.
func (r *Remote) Close() error {
	r.leaving.Do(func() { close(r.closing) })
	r.mu.Lock()
	r.closed = true
	l := r.link
	r.mu.Unlock()
	if l != nil {
		l.close(leaveTimeout)
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
	if s, alive := adopt(started, r.bootID); alive {
		return s, true
	}
	return nil, false
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
	var n news
	defer func() { n.tell() }()
	same := true
	for taken := false; same && !taken; {
		next, err := r.connect()
		if closed(r.closing) || errors.Is(err, os.ErrClosed) {
			return // we leave: the next worker is told of them
		}
		if errors.Is(err, errSilent) {
			continue // it is there, and has them
		}
		if same = err == nil && next.instance == lost.instance; same {
			taken = next.takeOver(processes, &n)
		} else {
			r.config.Logger.Error("runner is lost; the outcome of what it ran can't be known", "jobs", len(processes), "error", err)
		}
	}
	for _, p := range processes {
		if same && !p.hasBegun() {
			p.end(fmt.Errorf("the request was lost: %w", jobexec.ErrRunnerChanged), &n)
		} else {
			p.orphaned(r.bootID, &n)
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
	made := make(chan struct{})
	defer close(made)
	go func() { // whoever closes does not wait for the runner's answer
		select {
		case <-r.closing:
			_ = conn.SetReadDeadline(time.Now())
		case <-made:
		}
	}()
	l, err := newLink(conn, r.config.Logger, r.link == nil, r.rejoin)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return l, nil
}

package runner

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/journal"
)

// Local starts jobs as children of this process. Run has to run for anything to be learned of them.
type Local struct {
	reactor
	null   *os.File // for jobs to read
	sink   *os.File // the same, to write
	bootID string

	oomKills atomic.Int64 // how often the kernel had killed for want of memory when we last looked
}

// pipeDelay is how long the output of a process that is gone is waited for:
// a grandchild may keep the pipe open (pitfall 28).
const pipeDelay = time.Second

// NewLocal makes a runner whose jobs are children of this process.
func NewLocal() (*Local, error) {
	l := &Local{}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	l.oomKills.Store(oomKills())
	return l, nil
}

func (l *Local) open() (err error) {
	if l.bootID, err = BootID(); err != nil {
		return err
	}
	if err := keepDescriptors(); err != nil {
		return err
	}
	if l.null, err = os.Open(os.DevNull); err != nil {
		return err
	}
	if l.sink, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		return errors.Join(err, l.null.Close())
	}
	l.rest.sink = int(l.sink.Fd())
	if err := l.reactor.open(l); err != nil {
		return errors.Join(err, l.null.Close(), l.sink.Close())
	}
	return nil
}

// keepDescriptors keeps from jobs what this process has open. Go's own files are kept from them
// anyway; this is about those that our own parent left us (pitfall 33).
func keepDescriptors() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep descriptors from jobs: %w", err)
	}
	return nil
}

// Close ends Run, which closes what they share; processes run on.
func (l *Local) Close() error {
	l.stop()
	return nil
}

// Start starts a process, whose watcher is told of it from then on.
func (l *Local) Start(spec jobexec.Spec, w watcher) (*child, error) {
	c := &child{local: l, watcher: w, oomKills: l.oomKills.Load(), pidfd: -1}
	if err := l.spawn(spec, c); err != nil {
		return nil, startError(spec, err)
	}
	l.watch(c)
	return c, nil
}

// spawn makes the pipes and the process. Descriptors are plain numbers: what watches them
// is our own epoll, and Go's would be told of each for nothing.
func (l *Local) spawn(spec jobexec.Spec, c *child) error {
	stdout, err := newPipe()
	if err != nil {
		return err
	}
	stderr, err := newPipe()
	if err != nil {
		stdout.close()
		return err
	}
	err = l.fork(spec, c, stdout.writer, stderr.writer)
	unix.Close(stdout.writer)
	unix.Close(stderr.writer)
	if err != nil {
		unix.Close(stdout.reader)
		unix.Close(stderr.reader)
		return err
	}
	c.stdout = capture{pipe: stdout.reader, limit: spec.MaxOutput, rest: &l.rest}
	c.stderr = capture{pipe: stderr.reader, limit: spec.MaxOutput, rest: &l.rest}
	return nil
}

// fork starts the process as the leader of a group of its own.
func (l *Local) fork(spec jobexec.Spec, c *child, stdout, stderr int) error {
	before, pid := bootTime(), 0
	err := withSlack(usualSlack, func() (err error) {
		pid, err = syscall.ForkExec(spec.Argv[0], spec.Argv, &syscall.ProcAttr{
			Dir: spec.Dir, Env: spec.Env,
			Files: []uintptr{l.null.Fd(), uintptr(stdout), uintptr(stderr)},
			Sys:   &syscall.SysProcAttr{Setpgid: true, PidFD: &c.pidfd},
		})
		return err
	})
	if err != nil {
		return err
	}
	c.born, c.forked = bootTime(), before
	c.started = journal.Started{Pid: pid, BootID: l.bootID, StartTime: forkTime(pid, before, c.born)}
	return nil
}

// pipe is a pipe's two descriptors. A job gets the writing one; reading from the other one never
// waits.
type pipe struct{ reader, writer int }

func newPipe() (pipe, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return pipe{}, err
	}
	p := pipe{ends[0], ends[1]}
	if err := unix.SetNonblock(p.reader, true); err != nil {
		p.close()
		return pipe{}, err
	}
	return p, nil
}

func (p pipe) close() {
	unix.Close(p.reader)
	unix.Close(p.writer)
}

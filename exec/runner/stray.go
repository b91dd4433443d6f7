package runner

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// stray is a process whose runner is gone. It can be signalled, and its end can be seen; how it
// ended only its parent could learn. Where it runs for longer than it may, the worker ends it.
type stray struct {
	started journal.Started
	pidfd   *os.File // closed once the process is gone
}

// find finds a process again that a former runner started, if it is alive still.
func find(started journal.Started, bootID string) *stray {
	if started.Pid <= 0 || started.BootID != bootID {
		return nil
	}
	// The descriptor keeps meaning this process, whoever gets its number later, and becomes readable when the
	// process has ended.
	fd, err := unix.PidfdOpen(started.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil
	}
	pidfd := os.NewFile(uintptr(fd), "pidfd")
	if started.StartTime == 0 || proc.StartTime(started.Pid) != started.StartTime {
		pidfd.Close()
		return nil
	}
	return &stray{started, pidfd}
}

// outlive goes on with a process whose runner is gone. It fails where that is not alive. Of one that
// ends by itself only how long it ran will be known.
func (p *process) outlive(r *Remote) bool {
	s := find(p.started, r.bootID)
	if s == nil {
		return false
	}
	p.stray.Store(s)
	go func() {
		limit, err := p.limit.From(p.began()), errLost
		s.watch(&limit)
		p.done.Elapsed = proc.Elapsed(p.began(), proc.Uptime())
		if limit.Happened() {
			p.done.Reason, err = "its runner was lost before it ended: its exit code is not known", nil
			limit.Mark(&p.done)
			_ = s.signal(unix.SIGKILL) // what it left behind, as its runner would have done
		}
		s.pidfd.Close()
		var n notices
		p.end(err, &n)
		n.make()
	}()
	return true
}

// A timer's clock stands while the host is asleep, and the limit's does not: so it is looked at each
// longLook. retryLook is how soon a signal is tried again that could not be sent.
const (
	longLook  = time.Minute
	retryLook = time.Second
)

// watch waits until the process is gone, and sends the signals that are due until then.
func (s *stray) watch(limit *wire.Overrun) {
	for {
		_ = s.pidfd.SetReadDeadline(s.look(limit))
		if err := awaitEnd(s.pidfd); !errors.Is(err, os.ErrDeadlineExceeded) {
			return // another error would say that it was closed, which only we do
		}
	}
}

// look sends the signals that are due, and gives when to look again; zero: never. Where they can't be
// sent nothing has happened.
func (s *stray) look(limit *wire.Overrun) time.Time {
	for at, ever := limit.Due(); ever; at, ever = limit.Due() {
		if wait := time.Duration(at - proc.Uptime()); wait > 0 {
			return time.Now().Add(min(wait, longLook))
		}
		before := *limit
		for _, signo := range limit.Next(proc.Uptime()) {
			if err := s.send(signo); err != nil && signo != unix.SIGCONT {
				*limit = before
				return time.Now().Add(retryLook)
			}
		}
	}
	return time.Time{}
}

// send sends a signal to the process's group.
func (s *stray) send(signo unix.Signal) error {
	if hasEnded(s.pidfd) {
		return os.ErrProcessDone
	}
	return s.signal(signo)
}

// signal does so whether the process is there or not. It fails where the descriptor is closed.
func (s *stray) signal(signo unix.Signal) (err error) {
	raw, closed := s.pidfd.SyscallConn()
	if closed == nil {
		closed = raw.Control(func(fd uintptr) { err = proc.SignalGroup(int(fd), s.started.Pid, s.started.StartTime, signo) })
	}
	return errors.Join(closed, err)
}

// awaitEnd waits for the end of a process. Meanwhile it holds no thread, as the waiting system
// calls would: a thousand jobs are no thousand threads.
func awaitEnd(pidfd *os.File) error {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool { return proc.Over(int(fd)) })
}

// hasEnded tells whether the process has ended.
func hasEnded(pidfd *os.File) bool {
	over := true
	raw, err := pidfd.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { over = proc.Over(int(fd)) })
	}
	return over || err != nil
}

// began is the uptime at which a process was started.
func began(process journal.Started) int64 { return int64(process.StartTime) * proc.Tick }

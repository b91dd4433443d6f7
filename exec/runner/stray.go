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
	since   int64         // the uptime at which the job began
	ended   chan struct{} // closed when the process is gone
	limit   wire.Overrun  // which signals it got, and gets next; the watching goroutine's
	read    func() (stdout, stderr journal.Output)
	done    journal.Done // set before ended is closed
	err     error        // likewise
	pidfd   *os.File     // closed once the process is gone
}

// adopt finds a process that a former runner started, if it is alive still. steps says which signals
// it gets when it has run for as long as it may, read gives what it has written, when it has ended.
func adopt(
	started journal.Started, bootID string, since int64, steps wire.Overrun, read func() (stdout, stderr journal.Output),
) (s *stray, found bool) {
	if started.Pid <= 0 || started.BootID != bootID {
		return nil, false
	}
	pidfd, err := openPidfd(started.Pid)
	if err != nil {
		return nil, false
	}
	// Checked after the descriptor is open, which keeps meaning this process.
	if started.StartTime == 0 || proc.StartTime(started.Pid) != started.StartTime {
		pidfd.Close()
		return nil, false
	}
	s = &stray{started: started, since: since, limit: steps, pidfd: pidfd, ended: make(chan struct{}), read: read}
	go s.watch()
	return s, true
}

// A timer's clock stands while the host is asleep, and the limit's does not: so it is looked at each
// longLook. retryLook is how soon a signal is tried again that could not be sent.
const (
	longLook  = time.Minute
	retryLook = time.Second
)

// watch waits until the process is gone, and sends the signals that are due until then.
func (s *stray) watch() {
	for {
		_ = s.pidfd.SetReadDeadline(s.look())
		if err := awaitEnd(s.pidfd); !errors.Is(err, os.ErrDeadlineExceeded) {
			break // another error would say that it was closed, which only we do
		}
	}
	s.done.Elapsed, s.err = proc.Elapsed(s.since, proc.Uptime()), errLost
	if s.limit.Happened() {
		s.done.Reason, s.err = "its runner was lost before it ended: its exit code is not known", nil
		s.limit.Mark(&s.done)
		_ = s.signal(unix.SIGKILL) // what it left behind, as its runner would have done
	}
	s.done.Stdout, s.done.Stderr = s.read()
	close(s.ended)
	s.pidfd.Close()
}

// look sends the signals that are due, and gives when to look again; zero: never.
func (s *stray) look() time.Time {
	for at, ever := s.limit.Due(); ever; at, ever = s.limit.Due() {
		if wait := time.Duration(at - proc.Uptime()); wait > 0 {
			return time.Now().Add(min(wait, longLook))
		}
		if !s.overrun() {
			return time.Now().Add(retryLook)
		}
	}
	return time.Time{}
}

// overrun sends the signals that are due. Where they can't be sent nothing has happened.
func (s *stray) overrun() (sent bool) {
	before := s.limit
	for _, signo := range s.limit.Next(proc.Uptime()) {
		if err := s.send(signo); err != nil && signo != unix.SIGCONT {
			s.limit = before
			return false
		}
	}
	return true
}

// alreadyClosed is closed from the start.
var alreadyClosed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Begun implements jobexec.Process.
func (s *stray) Begun() <-chan struct{} { return alreadyClosed }

// Started implements jobexec.Process.
func (s *stray) Started() journal.Started { return s.started }

// Ended implements jobexec.Process.
func (s *stray) Ended() <-chan struct{} { return s.ended }

// Outcome implements jobexec.Process. Of one that ended by itself only how long it ran is known,
// and what its runner had put on disk.
func (s *stray) Outcome() (journal.Done, error) { return s.done, s.err }

// Adopted tells that the process goes on without its runner.
func (s *stray) Adopted() bool { return true }

// Signal implements jobexec.Process.
func (s *stray) Signal(signo int) error { return s.send(unix.Signal(signo)) }

// send sends a signal to the process's group.
func (s *stray) send(signo unix.Signal) error {
	if isClosed(s.ended) || hasEnded(s.pidfd) {
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

// isClosed tells whether a channel that carries nothing is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// openPidfd opens a process's descriptor. It keeps meaning this process, whoever gets its number
// later, and becomes readable when the process has ended.
func openPidfd(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
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

package runner

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
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
	guard   *guard        // nil: it has no limit
	read    func() (stdout, stderr journal.Output)
	done    journal.Done // set before ended is closed
	err     error        // likewise

	mu    sync.Mutex // held to signal, and to close the descriptor
	pidfd *os.File   // closed once the process is gone
}

// adopt finds a process that a former runner started, if it is alive still. steps says what is to
// be done about it when it has run for as long as it may, read gives what it has written, when it
// has ended.
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
	s = &stray{started: started, since: since, pidfd: pidfd, ended: make(chan struct{}), read: read}
	s.guard = watchOver(steps, s.ended, s.send)
	go s.watch()
	return s, true
}

// watch waits until the process is gone.
func (s *stray) watch() {
	_ = awaitEnd(s.pidfd) // an error would say that it was closed, which only we do
	elapsed := proc.Elapsed(s.since, proc.Uptime())
	s.err = jobexec.ErrOutcomeUnknown
	if s.guard != nil {
		if steps := s.guard.end(); steps.Happened() {
			s.done.Reason, s.err = "its runner was lost before it ended: its exit code is not known", nil
			steps.Mark(&s.done)
			_ = signalGroup(s.pidfd, unix.SIGKILL) // what it left behind, as its runner would have done
		}
	}
	s.done.Elapsed = elapsed
	s.done.Stdout, s.done.Stderr = s.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ended)
	s.pidfd.Close()
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

// Signal implements jobexec.Process.
func (s *stray) Signal(signo int) error { return s.send(unix.Signal(signo)) }

// send sends a signal to the process's group.
func (s *stray) send(signo unix.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isClosed(s.ended) || hasEnded(s.pidfd) {
		return os.ErrProcessDone
	}
	err := signalGroup(s.pidfd, signo)
	if err == unix.EINVAL { // a kernel before 6.9: the group has the process's number as long as that is there
		err = unix.Kill(-s.started.Pid, signo)
	}
	return err
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

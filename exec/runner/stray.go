package runner

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/journal"
)

// adopt finds a process that is not our child: its end can be seen, how it ended
// can't.
func adopt(started journal.Started, bootID string) (*stray, bool) {
	if started.Pid <= 0 || started.BootID != bootID {
		return nil, false
	}
	pidfd, err := openPidfd(started.Pid)
	if err != nil {
		return nil, false
	}
	// Checked after the descriptor is open: it keeps meaning this process.
	if started.StartTime == 0 || startTime(started.Pid) != started.StartTime {
		pidfd.Close()
		return nil, false
	}
	s := &stray{started: started, pidfd: pidfd, ended: make(chan struct{})}
	go s.watch()
	return s, true
}

// stray is a process that a former run started.
type stray struct {
	started journal.Started
	ended   chan struct{} // closed when the process is gone
	elapsed int64         // how long it ran; set before that

	mu    sync.Mutex // held to signal, and to close the descriptor
	pidfd *os.File   // closed once the process is gone
}

// running is closed from the start.
var running = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Begun implements jobexec.Process.
func (s *stray) Begun() <-chan struct{} { return running }

// Started implements jobexec.Process.
func (s *stray) Started() journal.Started { return s.started }

// Signal implements jobexec.Process.
func (s *stray) Signal(signo int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ended:
		return os.ErrProcessDone
	default:
	}
	if !alive(s.pidfd) {
		return os.ErrProcessDone
	}
	return unix.Kill(-s.started.Pid, unix.Signal(signo))
}

// Ended implements jobexec.Process.
func (s *stray) Ended() <-chan struct{} { return s.ended }

// Outcome implements jobexec.Process: nobody but its parent learns it. How long it ran is known.
func (s *stray) Outcome() (journal.Done, error) {
	return journal.Done{Elapsed: s.elapsed}, jobexec.ErrOutcomeUnknown
}

// watch waits until the process is gone.
func (s *stray) watch() {
	_ = awaitEnd(s.pidfd) // an error would say that it was closed, which only we do
	s.elapsed = elapsed(int64(s.started.StartTime)*tick, bootTime())
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ended)
	s.pidfd.Close()
}

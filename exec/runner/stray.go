package runner

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/journal"
)

// stray is a process whose runner is gone. It can be signalled, and its end can be seen; how it
// ended only its parent could learn.
type stray struct {
	started journal.Started
	ended   chan struct{} // closed when the process is gone
	elapsed int64         // how long it ran; set before that
	read    func() (stdout, stderr journal.Output)
	stdout  journal.Output // what its runner had put on disk; set before that
	stderr  journal.Output

	mu    sync.Mutex // held to signal, and to close the descriptor
	pidfd *os.File   // closed once the process is gone
}

// adopt finds a process that a former runner started, if it is alive still. read gives what it has
// written, when it has ended.
func adopt(started journal.Started, bootID string, read func() (stdout, stderr journal.Output)) (s *stray, found bool) {
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
	s = &stray{started: started, pidfd: pidfd, ended: make(chan struct{}), read: read}
	go s.watch()
	return s, true
}

// watch waits until the process is gone.
func (s *stray) watch() {
	_ = awaitEnd(s.pidfd) // an error would say that it was closed, which only we do
	s.elapsed = proc.Elapsed(int64(s.started.StartTime)*proc.Tick, proc.Uptime())
	s.stdout, s.stderr = s.read()
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

// Outcome implements jobexec.Process. Only how long the process ran is known, and what its runner
// had put on disk.
func (s *stray) Outcome() (journal.Done, error) {
	return journal.Done{Elapsed: s.elapsed, Stdout: s.stdout, Stderr: s.stderr}, jobexec.ErrOutcomeUnknown
}

// Signal implements jobexec.Process.
func (s *stray) Signal(signo int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isClosed(s.ended) || !alive(s.pidfd) {
		return os.ErrProcessDone
	}
	return unix.Kill(-s.started.Pid, unix.Signal(signo))
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

package runner

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/journal"
)

// A process is identified by its id, its start time and the boot: ids are reused
// (pitfall 29).

// BootID is the kernel's name of the current boot.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// startTime is when a process started, in clock ticks since boot; 0 where there is no
// such process.
func startTime(pid int) uint64 {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The second field, a name in parentheses, may itself hold spaces and
	// parentheses; the start time is the 20th field behind it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0
	}
	ticks, _ := strconv.ParseUint(string(fields[19]), 10, 64)
	return ticks
}

// Adopt implements jobexec.Runner for a process that is not our child: its end
// can be seen, how it ended can't.
func (l *Local) Adopt(started journal.Started) (jobexec.Process, bool) {
	if started.Pid <= 0 || started.BootID != l.bootID {
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

	mu    sync.Mutex // held to signal, and to close the descriptor
	pidfd *os.File   // closed once the process is gone
}

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

// Outcome implements jobexec.Process: nobody but its parent learns it.
func (s *stray) Outcome() (journal.Done, bool) { return journal.Done{}, false }

// watch waits until the process is gone.
func (s *stray) watch() {
	_ = awaitEnd(s.pidfd) // an error would say that it was closed, which only we do
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ended)
	s.pidfd.Close()
}

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
	fd, err := unix.PidfdOpen(started.Pid, 0)
	if err != nil {
		return nil, false
	}
	// Checked after the descriptor is open: it keeps meaning this process.
	if started.StartTime == 0 || startTime(started.Pid) != started.StartTime {
		unix.Close(fd)
		return nil, false
	}
	s := &stray{started: started, pidfd: fd, ended: make(chan struct{})}
	go s.watch()
	return s, true
}

// stray is a process that a former run started.
type stray struct {
	started journal.Started
	ended   chan struct{} // closed when the process is gone

	mu    sync.Mutex
	pidfd int // −1 once the process is gone
}

// Started implements jobexec.Process.
func (s *stray) Started() journal.Started { return s.started }

// Signal implements jobexec.Process.
func (s *stray) Signal(signo int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pidfd < 0 || unix.PidfdSendSignal(s.pidfd, 0, nil, 0) != nil {
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
	defer close(s.ended)
	poll := []unix.PollFd{{Fd: int32(s.pidfd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(poll, -1); err != unix.EINTR {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	unix.Close(s.pidfd)
	s.pidfd = -1
}

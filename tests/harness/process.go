package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Crash kills the worker, its runner and all their jobs at the same moment, as a
// host that loses power would.
func (d *Daemon) Crash(t testing.TB) {
	t.Helper()
	below := descendants(t, d.Pid)
	d.Kill(t)
	for _, pid := range below {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
	}
}

// KillRunner kills the worker's runner and leaves the worker.
func (d *Daemon) KillRunner(t testing.TB) {
	t.Helper()
	for pid, parent := range parents(t) {
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if parent != d.Pid || err != nil || !strings.Contains(string(command), "\x00runner\x00") {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill the runner: %v", err)
		}
		return
	}
	t.Fatalf("%s (pid %d) has no runner", d.program, d.Pid)
}

// descendants are the processes below one, those nearest to it first.
func descendants(t testing.TB, top int) []int {
	t.Helper()
	parent := parents(t)
	below := []int{top}
	for i := 0; i < len(below); i++ {
		for pid, ppid := range parent {
			if ppid == below[i] {
				below = append(below, pid)
			}
		}
	}
	return below[1:]
}

// parents gives every process's parent.
func parents(t testing.TB) map[int]int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		// pid (name) state parent …; the name may hold anything, also a parenthesis.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		pid, pidErr := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, parentErr := strconv.Atoi(fields[1])
		if pidErr != nil || parentErr != nil {
			t.Fatalf("%s: %q", file, stat)
		}
		parents[pid] = parent
	}
	return parents
}

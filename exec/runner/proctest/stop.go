package proctest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/must"
)

// patience is how long a process may take to stop; on a busy machine it takes some milliseconds.
const patience = 2 * time.Minute

// Stop makes a process stand still until it gets SIGCONT. The kernel answers kill before the
// threads of the process have stopped: until they have, the process may still answer somebody.
func Stop(t testing.TB, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatalf("send SIGSTOP to %d: %v", pid, err)
	}
	deadline := time.After(patience)
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		moving := must.Get(goesOn(pid))(t)
		if moving == "" {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("process %d got SIGSTOP %s ago and goes on: %s", pid, patience, moving)
		}
	}
}

// goesOn names a thread of a process that has not stopped. It is "" where all have: what was there
// before the first look had stopped by then, so what is there after the last look is all there is.
func goesOn(pid int) (string, error) {
	before, err := threads(pid)
	if err != nil {
		return "", err
	}
	for _, thread := range before {
		stat, err := os.ReadFile(thread)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return "", err
		}
		// pid (name) state …; the name may hold anything, also a parenthesis.
		if state := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:]); !bytes.HasPrefix(state, []byte("T")) {
			return string(stat), nil
		}
	}
	after, err := threads(pid)
	if err != nil || slices.Equal(before, after) {
		return "", err
	}
	return "it has other threads than before", nil
}

// threads are the files that tell of each thread of a process how it is.
func threads(pid int) ([]string, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("process %d is gone", pid)
	}
	return files, nil
}

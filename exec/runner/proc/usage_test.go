package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/must"
)

// A group's processes are added up: two of them, one of which has used the processor and waited for
// a child that has.
func TestGroupsAreAddedUp(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/sh", "-c", "sleep 300 & (i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done); echo spent; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	must.Get(out.Read(make([]byte, 10)))(t)
	var m Meter
	got := m.Groups()[cmd.Process.Pid]
	if got.Processes != 2 || got.CPU <= 0 || got.Memory < 100_000 || got.StartTime != StartTime(cmd.Process.Pid) {
		t.Errorf("measured %+v, want two processes, the start %d, and some of both", got, StartTime(cmd.Process.Pid))
	}
	if _, known := m.Groups()[1<<30]; known {
		t.Error("a group that there is not was measured")
	}
}

// Nobody looks again before the last look has paid.
func TestLooksAreRare(t *testing.T) {
	t.Parallel()
	var m Meter
	for range 1000 {
		m.Groups()
	}
	if m.looks != 1 {
		t.Errorf("looked %d times", m.looks)
	}
	m.due = time.Now().Add(-1)
	before := time.Now()
	m.Groups()
	if m.looks != 2 || m.due.Before(before.Add(leastRest)) {
		t.Errorf("looked %d times; the next look is due in %s", m.looks, time.Until(m.due))
	}
}

// What can't be seen is not known: a group whose leader is hidden or gone, a line that is none.
func TestWhatIsHiddenIsNotKnown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(pid, group int, name string) {
		fields := fmt.Sprintf("%d (%s) S 1 %d 1 0 -1 0 0 0 0 0 100 20 3 4 20 0 1 0 4711 5000 7 0\n", pid, name, group)
		must.Do(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint(pid)), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(pid), "stat"), []byte(fields), 0o600))
	}
	put(10, 10, "a) S 99 99 (b")
	put(11, 10, "sh")
	put(21, 20, "sh")                           // 20 is hidden
	put(30, 30, strings.Repeat("x", 2000))      // longer than any
	os.Mkdir(filepath.Join(dir, "12"), 0o700)   // it has just ended
	os.Mkdir(filepath.Join(dir, "self"), 0o700) // is no process
	groups, err := measure(dir)
	want := Usage{StartTime: 4711, CPU: 2 * 127 * 10 * time.Millisecond, Memory: 2 * 7 * int64(os.Getpagesize()), Processes: 2}
	if err != nil || len(groups) != 1 || groups[10] != want {
		t.Errorf("groups %+v, %v; want 10 with %+v", groups, err, want)
	}
	if _, err := measure(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that there is not was read")
	}
}

func BenchmarkGroups(b *testing.B) {
	for b.Loop() {
		must.Get(measure("/proc"))(b)
	}
}

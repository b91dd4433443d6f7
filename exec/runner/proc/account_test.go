package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/must"
)

// What is looked at with an account's rights is what its user and its groups may see, and nothing of that
// stays.
func TestLook(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root looks with another account's rights")
	}
	folder := t.TempDir()
	for _, open := range []string{filepath.Dir(folder), folder} {
		must.Do(t, os.Chmod(open, 0o755))
	}
	at := func(name string, uid, gid int, mode fs.FileMode) string {
		path := filepath.Join(folder, name)
		must.Do(t, errors.Join(os.WriteFile(path, nil, mode), os.Chown(path, uid, gid)))
		return path
	}
	account := &Account{Name: "app", UID: 20001, GID: 20002, Groups: []uint32{20003}}
	for path, want := range map[string]string{
		at("user", 20001, 0, 0o600):  "",
		at("group", 0, 20002, 0o640): "",
		at("more", 0, 20003, 0o640):  "",
		at("other", 0, 0, 0o640):     "as user app: open " + folder + "/other: permission denied",
	} {
		err := account.Look(func() error {
			_, err := os.ReadFile(path)
			return err
		})
		if got := errorText(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if _, err := os.ReadFile(path); err != nil {
			t.Errorf("after that: %v", err)
		}
	}
	if err := account.Look(func() error { return account.Look(func() error { return nil }) }); err != nil {
		t.Errorf("one inside of another: %v", err)
	}
	groups, err := os.Getgroups()
	if err != nil || slices.Contains(groups, 20003) {
		t.Errorf("the groups are %v, %v", groups, err)
	}
	if err := (*Account)(nil).Look(func() error { return fs.ErrClosed }); err != fs.ErrClosed {
		t.Errorf("without an account: %v", err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSpace(err.Error())
}

// A process that leads a group is seen with its parent, and among the children of that parent.
func TestRelatives(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	r, ok := RelativesOf(pid)
	if !ok || r.Parent != os.Getpid() || r.Group != pid || r.StartTime != StartTime(pid) || r.Ended {
		t.Errorf("relatives %+v, %t", r, ok)
	}
	if us, _ := RelativesOf(os.Getpid()); us.Memory <= 0 {
		t.Error("this process has no memory")
	}
	if seen := Children(os.Getpid())[pid]; seen.Group != pid || seen.StartTime != r.StartTime {
		t.Error("it is no child of its parent")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if _, ok := Children(os.Getpid())[pid]; ok {
		t.Error("it has relatives when it is gone")
	}
}

// What the system would only say in a word is told so that it can be mended.
func TestWhatCannotBeExecuted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, content := range map[string]string{
		"sound": "#! /bin/sh\n", "orphan": "#!/none -x\n", "windows": "#!/bin/sh\r\n", "text": "exit 0\n", "nameless": "#!\n",
	} {
		if err := os.WriteFile(at(name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"/bin/sh":      "",
		at("sound"):    "",
		"./sound":      "",
		"./none":       "no such file or directory",
		dir:            "it is a folder",
		at("orphan"):   `it names an interpreter that can't be executed: "/none": no such file or directory`,
		at("windows"):  `it names an interpreter that can't be executed: "/bin/sh\r": no such file or directory`,
		at("text"):     "exec format error: it has no #! line that names its interpreter, as in #!/bin/sh",
		at("nameless"): "exec format error: it has no #! line that names its interpreter, as in #!/bin/sh",
	} {
		got := ""
		if err := Check(dir, path); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

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
	m.Groups()
	first := m.due
	for range 1000 {
		m.Groups()
	}
	if m.due != first {
		t.Error("it looked again")
	}
	before := time.Now()
	m.due = before.Add(-1)
	if m.Groups(); m.due.Before(before.Add(leastRest)) {
		t.Errorf("the next look is due in %s", time.Until(m.due))
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

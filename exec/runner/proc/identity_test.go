package proc

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

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

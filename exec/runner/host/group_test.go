package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/store/storetest/must"
)

// A job can make processes that are no children of its own, but of the runner: those are reaped, too.
func TestChildrenThatAJobMakesOfOursAreReaped(t *testing.T) {
	t.Parallel()
	local := newTestLocal(t)
	const cloneParent = unix.CLONE_PARENT | int(unix.SIGCHLD)
	made := run(t, local, script(fmt.Sprintf(
		`exec perl -MPOSIX -e 'for (1 .. 3) { my $p = syscall(%d, %d, 0, 0, 0, 0); POSIX::_exit(0) if $p == 0; syswrite(STDOUT, "$p\n") }'`,
		unix.SYS_CLONE, cloneParent)))
	pids := strings.Fields(string(made.Stdout.Kept))
	if len(pids) != 3 {
		t.Fatalf("done %+v", made)
	}
	for _, text := range pids {
		pid := must.Get(strconv.Atoi(text))(t)
		for who, there := proc.RelativesOf(pid); there && who.Parent == os.Getpid(); who, there = proc.RelativesOf(pid) {
			run(t, local, script("true"))
		}
	}
}

// When a job has ended nothing is left of its group, whether that kept the output open or not.
func TestNothingIsLeftInAJobsGroup(t *testing.T) {
	t.Parallel()
	for name, output := range map[string]string{"keeps the output open": "", "keeps nothing open": "> /dev/null 2>&1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			done := run(t, newTestLocal(t), script("sleep 300 "+output+" & echo $! > "+file))
			if done.Code == nil || *done.Code != 0 {
				t.Errorf("the job itself ended with %+v", done)
			}
			content := must.Get(os.ReadFile(file))(t)
			pid := must.Get(strconv.Atoi(strings.TrimSpace(string(content))))(t)
			left, err := unix.PidfdOpen(pid, 0)
			if err == unix.ESRCH {
				return // it is gone, and its new parent has reaped it
			}
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(left)
			n, err := 0, error(unix.EINTR)
			for err == unix.EINTR {
				n, err = unix.Poll([]unix.PollFd{{Fd: int32(left), Events: unix.POLLIN}}, 10_000)
			}
			if n != 1 {
				t.Errorf("process %d of its group lives on: %v", pid, err)
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		})
	}
}

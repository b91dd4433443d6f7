package runner

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/must"
)

// A child of the runner that was stopped before its program goes on; one that is stopped again and again is
// killed, and what has a program of its own is left alone.
func TestThaw(t *testing.T) {
	t.Parallel()
	start := func(args ...string) int {
		child := exec.Command(os.Args[0])
		child.Args, child.Env = args, append(os.Environ(), roleVariable+"=sleeper")
		must.Get(child.StdinPipe())(t)
		must.Do(t, child.Start())
		t.Cleanup(func() {
			_ = child.Process.Kill()
			_ = child.Wait()
		})
		must.Do(t, unix.Kill(child.Process.Pid, unix.SIGSTOP))
		await(t, child.Process.Pid, unix.WSTOPPED)
		return child.Process.Pid
	}
	early, again, stopped := start(os.Args...), start(os.Args...), start("a job")
	thaws := thaw(os.Getpid(), map[int]int{early: mostThaws - 1, again: mostThaws})
	if thaws[early] != mostThaws || thaws[again] != mostThaws+1 || thaws[stopped] != 0 {
		t.Errorf("thaws %v, of %d, %d and %d", thaws, early, again, stopped)
	}
	await(t, early, unix.WCONTINUED)
	await(t, again, unix.WEXITED)
	if left := thaw(os.Getpid(), nil); left[early] != 0 || left[stopped] != 0 {
		t.Errorf("a second look finds %v", left)
	}
}

// await waits until a child is stopped, goes on, or has ended; it does not reap it.
func await(t *testing.T, pid, what int) {
	t.Helper()
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, what|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			must.Do(t, err)
			return
		}
	}
}

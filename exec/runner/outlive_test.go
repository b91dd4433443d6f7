package runner

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/store/storetest/must"
)

// killWorker has a worker in another process start jobs, and kills it when they run.
func killWorker(t *testing.T, dir string, scripts ...string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", dir)
	cmd.Env = append(os.Environ(), roleVariable+"=worker")
	cmd.Stdin = strings.NewReader(strings.Join(scripts, "\n") + "\n")
	cmd.Stderr = os.Stderr
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	for range scripts {
		if !lines.Scan() {
			t.Fatal("the worker ended early")
		}
	}
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait() // its error is that it was killed
}

// A worker that is killed leaves its jobs running, and the next one learns how
// they ended, with all of their output (pitfall 27).
func TestPitfall27JobsOutliveTheirWorker(t *testing.T) {
	t.Parallel()
	dir, gate := t.TempDir(), filepath.Join(t.TempDir(), "gate")
	must.Do(t, unix.Mkfifo(gate, 0o600))
	killWorker(t, dir, "echo before; read line <"+gate+"; echo $line; exit 9", "echo short; exit 4")
	remote := open(t, dir)
	recalled := make(map[int64]jobexec.Process)
	for _, r := range remote.Recall(nil) {
		recalled[r.Job] = r.Process
	}
	if len(recalled) != 2 {
		t.Fatalf("the runner has %d jobs, want 2", len(recalled))
	}
	if done, err := wait(recalled[2]); err != nil || *done.Code != 4 || string(done.Stdout.Kept) != "short\n" {
		t.Errorf("error %v, done %+v", err, done)
	}
	must.Do(t, os.WriteFile(gate, []byte("after\n"), 0))
	if done, err := wait(recalled[1]); err != nil || *done.Code != 9 || string(done.Stdout.Kept) != "before\nafter\n" {
		t.Errorf("error %v, done %+v", err, done)
	}
	remote.Forget(1, workerToken, 1)
	remote.Forget(2, workerToken, 1)
}

func TestAnOutcomeIsKeptUntilItIsForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	killWorker(t, dir, "exit 3", "exit 4")
	for range 2 {
		remote := open(t, dir)
		if n := len(remote.Recall(nil)); n != 2 {
			t.Fatalf("the runner has %d jobs, want 2", n)
		}
		must.Do(t, remote.Close())
	}
	remote := open(t, dir)
	for _, r := range remote.Recall(nil) {
		if done, err := wait(r.Process); err != nil || *done.Code != int(r.Job)+2 {
			t.Errorf("job %d: error %v, done %+v", r.Job, err, done)
		}
		remote.Forget(r.Job, r.Token, r.Attempt)
	}
}

// runnerOf finds the runner's process: it is the parent of a job.
func runnerOf(t *testing.T, remote *Remote) int {
	t.Helper()
	var pid int
	done, _ := wait(begin(t, remote, 4711, "echo $PPID"))
	remote.Forget(4711, "", 1)
	must.Get(fmt.Sscan(string(done.Stdout.Kept), &pid))(t)
	return pid
}

func TestARunnerEndsWhenNobodyNeedsIt(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	pidfd := must.Get(unix.PidfdOpen(runnerOf(t, remote), 0))(t)
	instance := must.Get(remote.Instance())(t)
	defer unix.Close(pidfd)
	must.Do(t, remote.Close())
	n, err := 0, error(unix.EINTR)
	for err == unix.EINTR {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 10_000)
	}
	if n != 1 {
		t.Errorf("the runner lives on: %v", err)
	}
	if !remote.Ended(instance) {
		t.Error("it ended without saying so: starts that it never heard of count as unknown")
	}
}

func TestAKilledRunnerIsReplaced(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	before := must.Get(remote.Instance())(t)
	running := begin(t, remote, 1, "exec sleep 300")
	link := linkOf(remote)
	must.Do(t, unix.Kill(runnerOf(t, remote), unix.SIGKILL))
	<-link.lost
	after := must.Get(remote.Instance())(t)
	if after == before {
		t.Error("the new runner has the name of the old one: a start that it never heard of would be repeated")
	}
	if remote.Ended(before) {
		t.Error("a killed runner counts as ended: what it was asked to start would be started again")
	}
	// The job lives on, can be signalled, and is not said to have an outcome.
	for deadline := time.Now().Add(hung); running.Signal(15) != nil && time.Now().Before(deadline); {
	}
	if _, err := wait(running); !errors.Is(err, jobexec.ErrOutcomeUnknown) {
		t.Error("nobody can know how a job ended whose runner was killed")
	}
	if done, err := wait(begin(t, remote, 2, "exit 5")); err != nil || *done.Code != 5 {
		t.Errorf("error %v, done %+v", err, done)
	}
	remote.Forget(2, "", 1)
}

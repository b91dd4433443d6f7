package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/proctest"
	"jobd/journal"
)

// childrenOf counts the children of a process, zombies among them.
func childrenOf(t *testing.T, pid int) (n int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("children of %d: %v", pid, err)
	}
	for _, file := range files {
		list, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended meanwhile
		}
		n += len(strings.Fields(string(list)))
	}
	return n
}

func TestNoZombieIsLeft(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	runner := runnerOf(t, remote)
	for job := range int64(50) {
		wait(begin(t, remote, job, "exit 0"))
		remote.Forget(job, "", 1)
	}
	if n := childrenOf(t, runner); n != 0 {
		t.Errorf("the runner has %d children", n)
	}
}

// A short job costs one message.
func TestAShortJobIsToldOfOnce(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	told := make(chan jobexec.News, 2)
	spec := jobexec.Spec{
		Job: 1, Attempt: 1, Argv: []string{"/bin/true"}, MaxOutput: 10,
		Tell: func(n jobexec.News) { told <- n },
	}
	p := asked(t, remote, spec)
	done, err := wait(p)
	for what := range told {
		if what.Ended {
			break
		}
	}
	if err != nil || *done.Code != 0 {
		t.Errorf("done %+v: %v", done, err)
	}
	if got := p.Started(); got.Pid == 0 || got.StartTime == 0 || got.BootID == "" || !isClosed(p.Begun()) {
		t.Errorf("the end does not say which process it was: %+v", got)
	}
	remote.Forget(1, "", 1)
}

// A runner that stands still holds up nobody who wants a job signalled, and gets no more such
// requests.
func TestASignalToARunnerThatStandsStill(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	runner := runnerOf(t, remote)
	p := begin(t, remote, 1, "exec sleep 300")
	<-p.Begun()
	proctest.Stop(t, runner)
	for range 3 {
		if err := p.Signal(15); !errors.Is(err, errSilent) {
			t.Errorf("error %v, want %v", err, errSilent)
		}
	}
	l := linkOf(remote)
	l.mu.Lock()
	n := len(l.answers)
	l.mu.Unlock()
	if n != 1 {
		t.Errorf("it was asked for %d signals, want the first only", n)
	}
	if err := unix.Kill(runner, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if done, err := wait(p); err != nil || done.Signal != "SIGTERM" {
		t.Errorf("done %+v: %v", done, err)
	}
	remote.Forget(1, "", 1)
}

// A caller that signals a job hears first what it is.
func TestASignalRightBehindTheStart(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	for job := range int64(20) {
		spec := script("exec sleep 300")
		spec.Job, spec.Attempt = job, 1
		p := asked(t, remote, spec)
		if err := p.Signal(9); err != nil {
			t.Errorf("signal: %v", err)
		}
		if !isClosed(p.Begun()) || p.Started() == (journal.Started{}) {
			t.Error("a signalled job is not known to run")
		}
		if done, err := wait(p); err != nil || done.Signal != "SIGKILL" || done.Note != "" {
			t.Errorf("done %+v: %v", done, err)
		}
		remote.Forget(job, "", 1)
	}
}

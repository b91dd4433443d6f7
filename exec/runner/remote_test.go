package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/must"
)

func TestARunnerStartsJobs(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	p := begin(t, remote, 1, "echo out; echo err >&2; echo $PPID >&2; exit 7")
	done, err := wait(p)
	if err != nil || done.Result != "fail" || *done.Code != 7 || string(done.Stdout.Kept) != "out\n" {
		t.Errorf("error %v, done %+v", err, done)
	}
	if lines := strings.Fields(string(done.Stderr.Kept)); len(lines) != 2 || lines[1] == fmt.Sprint(os.Getpid()) {
		t.Errorf("stderr %q: the job's parent should be the runner", done.Stderr.Kept)
	}
	remote.Forget(1, "", 1)
	if done, _ := wait(begin(t, remote, 1, "exit 0")); *done.Code != 0 {
		t.Errorf("exit code 0 came as %+v", done)
	}
	remote.Forget(1, "", 1)
}

// Many jobs that end at once with much output leave it with the runner until
// there is room for it.
func TestLargeOutputIsFetchedInTurn(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	const jobs, size = 3 * largeOutputs, 300_000
	var processes []jobexec.Process
	for job := range int64(jobs) {
		processes = append(processes, begin(t, remote, job, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' %d", size, job)))
	}
	type outcome struct {
		job  int64
		done journal.Done
	}
	outcomes := make(chan outcome)
	for job, p := range processes {
		go func() {
			done, _ := wait(p)
			outcomes <- outcome{int64(job), done}
		}()
	}
	for forgotten := range jobs {
		o := <-outcomes
		if want := strings.Repeat(fmt.Sprint(o.job), size); string(o.done.Stdout.Kept) != want {
			t.Errorf("job %d: %d bytes came, want %d of its own", o.job, len(o.done.Stdout.Kept), size)
		}
		here := -forgotten
		for _, p := range processes {
			if isClosed(p.Ended()) {
				here++
			}
		}
		if here > largeOutputs {
			t.Errorf("%d large outputs are here at once", here)
		}
		remote.Forget(o.job, "", 1)
	}
}

func TestARunnerRefusesWhatCannotBeStarted(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	_, err := wait(asked(t, remote, jobexec.Spec{Job: 1, Attempt: 1, Argv: []string{"/none"}}))
	if err == nil || err.Error() != "start /none: no such file or directory" || errors.Is(err, jobexec.ErrOutcomeUnknown) {
		t.Errorf("error %v", err)
	}
	wait(begin(t, remote, 2, "exit 0"))
	spec := script("exit 0")
	spec.Job, spec.Attempt = 2, 1
	if _, err := wait(asked(t, remote, spec)); err == nil {
		t.Error("a start was done twice")
	}
	remote.Forget(2, "", 1)
}

func TestSignalsThroughTheRunner(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	p := begin(t, remote, 1, "exec sleep 300")
	if err := p.Signal(0); err != nil {
		t.Errorf("probe: %v", err)
	}
	if err := p.Signal(15); err != nil {
		t.Errorf("signal: %v", err)
	}
	if done, _ := wait(p); done.Signal != "SIGTERM" {
		t.Errorf("done %+v", done)
	}
	if err := p.Signal(15); err == nil {
		t.Error("a process that is gone was signalled")
	}
	remote.Forget(1, "", 1)
}

// The environment is sent once, and again when it changes.
func TestEnvironments(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	first, second := []string{"WHO=first"}, []string{"WHO=second"}
	for i, env := range [][]string{first, first, second, nil, second, first} {
		spec := jobexec.Spec{Job: int64(i), Attempt: 1, Argv: []string{"/bin/sh", "-c", "echo $WHO"}, Env: env, MaxOutput: 100}
		done, _ := wait(asked(t, remote, spec))
		remote.Forget(int64(i), "", 1)
		want := "\n"
		if env != nil {
			want = strings.TrimPrefix(env[0], "WHO=") + "\n"
		}
		if got := string(done.Stdout.Kept); got != want {
			t.Errorf("start %d sees %q, want %q", i, got, want)
		}
	}
}

// A start that was announced with another runner's name is not done: after a crash it would
// be looked for where it never was, and be repeated.
func TestAStartIsForTheRunnerThatWasAnnounced(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	spec := script("exit 0")
	spec.Job, spec.Attempt, spec.Runner = 1, 1, "another"
	if _, err := remote.Start(spec); !errors.Is(err, jobexec.ErrRunnerChanged) {
		t.Errorf("error %v", err)
	}
	if _, err := ask(remote, spec); err != nil {
		t.Errorf("the start was counted, and can't be repeated: %v", err)
	}
	remote.Forget(1, "", 1)
}

func TestTheSocketIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	for _, name := range []string{wire.SocketFile, logFile} {
		info := must.Get(os.Stat(filepath.Join(dir, name)))(t)
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, mode)
		}
	}
}

func TestAFolderWithALongName(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 50))
	must.Do(t, os.Mkdir(dir, 0o700))
	if done, err := wait(begin(t, open(t, dir), 1, "exit 0")); err != nil || *done.Code != 0 {
		t.Errorf("error %v, done %+v", err, done)
	}
}

// A runner's own timers may ring late, its jobs' may not.
func TestAJobsTimersAreAsPreciseAsEverybodys(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	done, err := wait(begin(t, remote, 1, "read slack </proc/self/timerslack_ns; echo $slack"))
	if got := strings.TrimSpace(string(done.Stdout.Kept)); err != nil || got != strconv.Itoa(proc.UsualTimers) {
		t.Errorf("slack %q ns: %v", got, err)
	}
	remote.Forget(1, "", 1)
}

package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
	"jobd/store/storetest/must"
)

// fifo makes a pipe that has a name.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	must.Do(t, unix.Mkfifo(path, 0o600))
	return path
}

// heard waits until somebody has written to a fifo, and gives what.
func heard(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return strings.TrimSpace(string(text))
}

// limitedTo starts a job that may run for so long.
func limitedTo(t *testing.T, remote *Remote, text string, timeout, kill time.Duration) jobexec.Process {
	t.Helper()
	spec := script(text)
	spec.Token, spec.Attempt, spec.Timeout, spec.KillAfter = "@abcdefghi", 1, timeout, kill
	return asked(t, remote, spec)
}

// What the worker is told of a job that ran for too long is a failure, with the timeout.
func TestATimeoutIsAFailure(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	p := limitedTo(t, remote, "trap 'echo out; exit 0' TERM; sleep 300 & wait", 4500*time.Millisecond, time.Hour)
	done, err := wait(p)
	if err != nil || done.Result != "fail" || done.Timeout != 5 || done.Code == nil || *done.Code != 0 || string(done.Stdout.Kept) != "out\n" {
		t.Errorf("error %v, done %+v", err, done)
	}
	if want := "ended after its timeout of 4.5s, with SIGTERM"; done.Note != want {
		t.Errorf("note %q, want %q", done.Note, want)
	}
	remote.Forget(1, "@abcdefghi", 1)
}

// A worker is killed while its jobs' limits run. They hold though nobody is there, the runner waits
// for them, and the next worker is told.
func TestLimitsHoldWhileThereIsNoWorker(t *testing.T) {
	t.Parallel()
	dir, stopped := t.TempDir(), fifo(t)
	killWorker(t, dir,
		"5s 1h: trap 'echo asked >"+stopped+"; exit 3' TERM; sleep 300 & wait",
		"5s 100ms: trap '' TERM; exec sleep 300",
		"1h 1s: exec sleep 300",
	)
	if got := heard(t, stopped); got != "asked" {
		t.Errorf("it says %q", got)
	}
	remote := open(t, dir)
	recalled := make(map[int64]jobexec.Process)
	for _, r := range remote.Recall(nil) {
		if r.Token != workerToken || r.Attempt != 1 {
			t.Errorf("recalled is %+v", r)
		}
		recalled[r.Job] = r.Process
	}
	if len(recalled) != 3 {
		t.Fatalf("the runner has %d jobs", len(recalled))
	}
	if done, err := wait(recalled[1]); err != nil || done.Result != "fail" || done.Code == nil || *done.Code != 3 || done.Timeout != 5 {
		t.Errorf("error %v, done %+v", err, done)
	}
	if done, err := wait(recalled[2]); err != nil || done.Signal != "SIGKILL" || done.Timeout != 5 ||
		done.Note != "ended after its timeout of 5s, with SIGTERM and, 100ms later, SIGKILL" {
		t.Errorf("error %v, done %+v", err, done)
	}
	if err := recalled[3].Signal(9); err != nil {
		t.Error(err)
	}
	if done, err := wait(recalled[3]); err != nil || done.Timeout != 0 || done.Note != "" {
		t.Errorf("error %v, done %+v", err, done)
	}
	for job := range int64(3) {
		remote.Forget(job+1, workerToken, 1)
	}
}

// The runner is killed while a limit runs: the worker that is there sees to it, and to what the
// process leaves behind in its group.
func TestLimitsHoldWhenTheRunnerIsKilled(t *testing.T) {
	t.Parallel()
	remote, up := open(t, t.TempDir()), fifo(t)
	runner := runnerOf(t, remote)
	text := "(trap '' TERM; echo $(exec sh -c 'echo $PPID') >" + up + "; exec sleep 300) & exec sleep 300"
	p := limitedTo(t, remote, text, 5*time.Second, time.Hour)
	<-p.Begun()
	child := must.Get(strconv.Atoi(heard(t, up)))(t)
	pidfd := os.NewFile(uintptr(must.Get(unix.PidfdOpen(child, unix.PIDFD_NONBLOCK))(t)), "pidfd")
	defer pidfd.Close()
	must.Do(t, unix.Kill(runner, unix.SIGKILL))
	done, err := wait(p)
	if err != nil || done.Result != "fail" || done.Timeout != 5 || done.Code != nil || !strings.Contains(done.Reason, "its runner was lost") {
		t.Errorf("error %v, done %+v", err, done)
	}
	if done.Elapsed < (5 * time.Second).Microseconds() {
		t.Errorf("it was ended after %d µs", done.Elapsed)
	}
	if err := awaitEnd(pidfd); err != nil {
		t.Error(err)
	}
	remote.Forget(1, "@abcdefghi", 1)
}

// The worker is killed, and then the runner: the next worker has learned the limit from it.
func TestLimitsHoldWhenTheRunnerIsKilledUnderTheNextWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	killWorker(t, dir, "3s 1h: exec sleep 300")
	remote := open(t, dir)
	recalled := remote.Recall([]jobexec.Spec{{Job: 1, Token: workerToken, Attempt: 1}})
	if len(recalled) != 1 {
		t.Fatalf("recalled are %+v", recalled)
	}
	must.Do(t, unix.Kill(remote.Standing().PID, unix.SIGKILL))
	if done, err := wait(recalled[0].Process); err != nil || done.Result != "fail" || done.Timeout != 3 {
		t.Errorf("error %v, done %+v", err, done)
	}
	remote.Forget(1, workerToken, 1)
}

// Worker and runner are killed. What the next worker adopts has the limit that the journal knows,
// from the start of the process.
func TestAnAdoptedProcessHasItsLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		limit        wire.Limit
		note         string
	}{
		{"it is over", "exec sleep 300", wire.Limit{Timeout: 1, Kill: time.Hour}, "ended after its timeout of 1ns, with SIGTERM"},
		{
			"it is soon over", "exec sleep 300",
			wire.Limit{Timeout: 300 * time.Millisecond, Kill: time.Hour},
			"ended after its timeout of 300ms, with SIGTERM",
		},
		{
			"it has joined another group", "exec perl -e 'setpgrp(0, getpgrp(getppid())) or die; open(U, q(>), $ARGV[0]); print U 1; close U; sleep 20' $up",
			wire.Limit{Timeout: 1, Kill: time.Hour},
			"ended after its timeout of 1ns, with SIGTERM",
		},
		{
			"it ignores SIGTERM", "trap '' TERM; echo >$up; exec sleep 300",
			wire.Limit{Timeout: 1, Kill: 100 * time.Millisecond},
			"ended after its timeout of 1ns, with SIGTERM and, 100ms later, SIGKILL",
		},
		{
			"it is stopped", "trap 'exit 0' TERM; echo >$up; kill -STOP $$; exit 1",
			wire.Limit{Timeout: 200 * time.Millisecond, Kill: time.Hour},
			"ended after its timeout of 200ms, with SIGTERM",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			up := fifo(t)
			started, ended := startChild(t, "up="+up+"; "+test.script)
			if strings.Contains(test.script, "$up") {
				heard(t, up)
			}
			s, alive := adopt(t, started, test.limit)
			if !alive {
				t.Fatal("it was not adopted")
			}
			done, err := wait(s)
			if err != nil || done.Result != "fail" || done.Timeout != 1 || done.Note != test.note {
				t.Errorf("error %v, done %+v, want %q", err, done, test.note)
			}
			ended()
		})
	}
}

// Its end was first: nobody has reaped it yet, and it gets no signal.
func TestAnAdoptedProcessThatHasEndedGetsNoSignal(t *testing.T) {
	t.Parallel()
	started, ended := startChild(t, "true")
	pidfd := os.NewFile(uintptr(must.Get(unix.PidfdOpen(started.Pid, unix.PIDFD_NONBLOCK))(t)), "pidfd")
	defer pidfd.Close()
	must.Do(t, awaitEnd(pidfd))
	s, alive := adopt(t, started, wire.Limit{Timeout: 1, Kill: 1})
	if !alive {
		t.Fatal("it was not adopted")
	}
	if done, err := wait(s); !errors.Is(err, jobexec.ErrOutcomeUnknown) || done.Timeout != 0 {
		t.Errorf("error %v, done %+v", err, done)
	}
	if exit := ended(); exit != nil {
		t.Errorf("it ended with %v", exit)
	}
}

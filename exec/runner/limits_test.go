package runner

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/check"
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

// A worker is killed while its jobs' limits run. They hold though nobody is there, the runner waits
// for them, and the next worker is told.
func TestLimitsHoldWhileThereIsNoWorker(t *testing.T) {
	t.Parallel()
	since, dir, stopped := proc.Uptime(), t.TempDir(), fifo(t)
	killWorker(t, dir,
		"5s 1h: trap 'echo asked >"+stopped+"; exit 3' TERM; sleep 300 & wait",
		"5s 100ms: trap '' TERM; exec sleep 300",
		"1h 1s: exec sleep 300",
	)
	check.Equal(t, heard(t, stopped), "asked", "it says")
	remote := open(t, dir)
	recalled := make(map[int64]jobexec.Process)
	for _, r := range remote.Recall(nil) {
		if r.Token != workerToken || r.Attempt != 1 {
			t.Errorf("recalled is %+v", r)
		}
		recalled[r.Job] = r.Process
	}
	must.Equal(t, len(recalled), 3, "the runner has … jobs")
	if done, err := wait(recalled[1]); err != nil || done.Result != "fail" || done.Code == nil || *done.Code != 3 || done.Timeout != 5 {
		t.Errorf("error %v, done %+v", err, done)
	}
	done, err := wait(recalled[2])
	ranFor(t, "a job that is ended", done, 5100*time.Millisecond, since)
	if err != nil || done.Signal != "SIGKILL" || done.Timeout != 5 ||
		done.Note != "ended after its timeout of 5s, with SIGTERM and, 100ms later, SIGKILL" {
		t.Errorf("error %v, done %+v", err, done)
	}
	check.Do(t, recalled[3].Signal(9))
	if done, err := wait(recalled[3]); err != nil || done.Timeout != 0 || done.Note != "" {
		t.Errorf("error %v, done %+v", err, done)
	}
}

// The runner is killed while a limit runs: the worker that is there sees to it, and to what the
// process leaves behind in its group.
func TestLimitsHoldWhenTheRunnerIsKilled(t *testing.T) {
	t.Parallel()
	remote, up := open(t, t.TempDir()), fifo(t)
	runner := remote.Standing().PID
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
	check.Do(t, awaitEnd(pidfd))
}

// The worker is killed, and then the runner: the next worker has learned the limit from it.
func TestLimitsHoldWhenTheRunnerIsKilledUnderTheNextWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	killWorker(t, dir, "3s 1h: exec sleep 300")
	remote := open(t, dir)
	recalled := remote.Recall([]jobexec.Spec{{Job: 1, Token: workerToken, Attempt: 1}})
	must.Equal(t, len(recalled), 1, "recalled are %+v", recalled)
	must.Do(t, unix.Kill(remote.Standing().PID, unix.SIGKILL))
	if done, err := wait(recalled[0].Process); err != nil || done.Result != "fail" || done.Timeout != 3 {
		t.Errorf("error %v, done %+v", err, done)
	}
}

// Worker and runner are killed. What the next worker adopts has the limit that the journal knows,
// from the start of the process.
func TestAnAdoptedProcessHasItsLimit(t *testing.T) {
	t.Parallel()
	const regroups = "exec perl -e 'setpgrp(0, getpgrp(getppid())) or die; open(U, q(>), $ARGV[0]); print U 1; close U; sleep 20' $up"
	for name, test := range map[string]struct {
		script        string
		timeout, kill time.Duration
		killed        string
	}{
		"it is over":                  {"exec sleep 300", 1, time.Hour, ""},
		"it is soon over":             {"exec sleep 300", 300 * time.Millisecond, time.Hour, ""},
		"it has joined another group": {regroups, 1, time.Hour, ""},
		"it ignores SIGTERM":          {"trap '' TERM; echo >$up; exec sleep 300", 1, 100 * time.Millisecond, " and, 100ms later, SIGKILL"},
		"it is stopped":               {"trap 'exit 0' TERM; echo >$up; kill -STOP $$; exit 1", 200 * time.Millisecond, time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := fifo(t)
			started, ended := startChild(t, "up="+up+"; "+test.script)
			if strings.Contains(test.script, "$up") {
				heard(t, up)
			}
			s, alive := adopt(t, started, wire.Limit{Timeout: test.timeout, Kill: test.kill})
			if !alive {
				t.Fatal("it was not adopted")
			}
			done, err := wait(s)
			note := fmt.Sprintf("ended after its timeout of %s, with SIGTERM%s", test.timeout, test.killed)
			if err != nil || done.Result != "fail" || done.Timeout != 1 || done.Note != note {
				t.Errorf("error %v, done %+v, want %q", err, done, note)
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

// ranFor asserts that a job is said to have run for so long at least, and no longer than the test
// did.
func ranFor(t *testing.T, what string, done journal.Done, least time.Duration, since int64) {
	t.Helper()
	got := time.Duration(done.Elapsed) * time.Microsecond
	if most := time.Duration(proc.Uptime()-since) + time.Duration(proc.Tick); got < least || got > most {
		t.Errorf("%s ran for %v, want %v to %v", what, got, least, most)
	}
}

// A job's end tells what its process and those that it waited for used; less memory than the runner has is not known.
func TestWhatAJobUsedIsMeasured(t *testing.T) {
	t.Parallel()
	since := proc.Uptime()
	remote := open(t, t.TempDir())
	done := must.Get(wait(begin(t, remote, 1, "dd if=/dev/zero of=/dev/null bs=100M count=3 2>/dev/null; exit 0")))(t)
	if most := int64(runtime.NumCPU()) * (proc.Uptime() - since) / 1000; done.CPU <= 0 || done.CPU > most || done.Memory < 100<<20 || done.Memory > 200<<20 {
		t.Errorf("%d µs of %d, %d bytes", done.CPU, most, done.Memory)
	}
	if done = must.Get(wait(begin(t, remote, 2, "head -c 300000 /dev/zero")))(t); done.Memory != 0 || len(done.Stdout.Kept) != 300000 {
		t.Errorf("a small one: %d bytes, %d of output", done.Memory, len(done.Stdout.Kept))
	}
	ranFor(t, "a job whose output is fetched", done, time.Microsecond, since)
}

// put writes messages as they pass.
func put(t *testing.T, conn *net.UnixConn, messages ...wire.Message) {
	t.Helper()
	out := wire.NewOutbox(conn)
	for _, m := range messages {
		out.Post(m)
	}
	out.Close()
	<-out.Written()
}

// A runner of another build is left when it has no job, and no outcome that is not journalled. Until then
// it has starts, those of pools too.
func TestARunnerOfAnotherBuildIsReplacedWhenItHasNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	listener := must.Get(net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, wire.SocketFile)}))(t)
	listener.SetUnlinkOnClose(false)
	forgets, end := make(chan wire.ID, 10), make(chan struct{})
	id := wire.ID{Job: 5, Token: workerToken, Attempt: 1}
	started := journal.Started{Pid: 1 << 30, StartTime: 1, BootID: "boot"}
	go func() {
		conn, err := listener.AcceptUnix()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		in := wire.NewReader(conn)
		if _, err := in.Next(); err != nil {
			t.Error(err)
		}
		out := wire.NewOutbox(conn)
		words := wire.WorkerHello()
		words.Jobs = words.Jobs[:len(words.Jobs)-1] // that of the build is the last
		hello := wire.Message{Kind: wire.Hello, Version: wire.Version, Instance: "older"}
		hello.Jobs = append(words.RunnerWords(), wire.Job{ID: id, Started: started})
		out.Post(hello)
		<-end
		code := 0
		out.Post(wire.Message{Kind: wire.Ended, ID: id, Started: started, Done: journal.Done{Result: "ok", Code: &code}})
		for {
			m, err := in.Next()
			if err != nil {
				break
			}
			if m.Kind == wire.Forget {
				forgets <- m.ID
			}
		}
		out.Close()
		listener.Close() // it has no worker and no job
	}()
	k := keep(t, dir)
	recalled := k.Recall(nil)
	must.Equal(t, len(recalled), 1, "the older runner has %+v", recalled)
	must.Equal(t, must.Get(k.Instance())(t), "older", "the runner is")
	k.pool(poolLoop, 1)
	close(end)
	if done, err := wait(recalled[0].Process); err != nil || done.Result != "ok" {
		t.Errorf("%+v, %v", done, err)
	}
	k.Forget(5, workerToken, 1)
	check.Equal(t, <-forgets, id, "it was told to forget")
	k.until("the next one is ready", func(s jobexec.PoolStanding) bool { return s.Ready == 1 })
	if done, err := wait(asked(t, k.Remote, k.spec(6, "echo it runs"))); err != nil || string(done.Stdout.Kept) != "it runs\n" {
		t.Errorf("%+v, %v", done, err)
	}
}

// A caller that signals a job hears first what it is.
func TestASignalRightBehindTheStart(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	for job := range int64(20) {
		spec := script("exec sleep 300")
		spec.Job, spec.Attempt = job, 1
		told := make(chan jobexec.News, 2)
		spec.Tell = func(n jobexec.News) { told <- n }
		p := asked(t, remote, spec)
		check.Do(t, p.Signal(9), "signal")
		if !jobexec.IsClosed(p.Begun()) || p.Started() == (journal.Started{}) {
			t.Error("a signalled job is not known to run")
		}
		if done, err := wait(p); err != nil || done.Signal != "SIGKILL" || done.Note != "" {
			t.Errorf("done %+v: %v", done, err)
		}
		for _, ended := range []bool{false, true} {
			check.Equal(t, <-told, jobexec.News{Job: job, Attempt: 1, Ended: ended}, "it is told")
		}
		remote.Forget(job, "", 1)
	}
}

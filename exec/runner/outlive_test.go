package runner

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/proctest"
	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/check"
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
	dir, gate := t.TempDir(), fifo(t)
	killWorker(t, dir, "echo before; read line <"+gate+"; echo $line; exit 9", "echo short; exit 4")
	remote := open(t, dir)
	recalled := make(map[int64]jobexec.Process)
	for _, r := range remote.Recall(nil) {
		recalled[r.Job] = r.Process
	}
	must.Equal(t, len(recalled), 2, "the runner has … jobs")
	if done, err := wait(recalled[2]); err != nil || *done.Code != 4 || string(done.Stdout.Kept) != "short\n" {
		t.Errorf("error %v, done %+v", err, done)
	}
	must.Do(t, os.WriteFile(gate, []byte("after\n"), 0))
	if done, err := wait(recalled[1]); err != nil || *done.Code != 9 || string(done.Stdout.Kept) != "before\nafter\n" {
		t.Errorf("error %v, done %+v", err, done)
	}
}

func TestAnOutcomeIsKeptUntilItIsForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	killWorker(t, dir, "exit 3", "exit 4")
	for range 2 {
		remote := open(t, dir)
		must.Equal(t, len(remote.Recall(nil)), 2, "the runner has … jobs")
		must.Do(t, remote.Close())
	}
	remote := open(t, dir)
	for _, r := range remote.Recall(nil) {
		done := must.Get(wait(r.Process))(t)
		check.Equal(t, *done.Code, int(r.Job)+2, "job %d: error …, done %+v", r.Job, done)
		remote.Forget(r.Job, r.Token, r.Attempt)
	}
}

func TestARunnerEndsWhenNobodyNeedsIt(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	pidfd := must.Get(unix.PidfdOpen(remote.Standing().PID, 0))(t)
	instance := must.Get(remote.Instance())(t)
	defer unix.Close(pidfd)
	must.Do(t, remote.Close())
	n, err := 0, error(unix.EINTR)
	for err == unix.EINTR {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 10_000)
	}
	check.Equal(t, n, 1, "the runner lives on: %v", err)
	if !remote.Ended(instance) {
		t.Error("it ended without saying so: starts that it never heard of count as unknown")
	}
}

func TestAKilledRunnerIsReplaced(t *testing.T) {
	t.Parallel()
	since := proc.Uptime()
	remote := open(t, t.TempDir())
	before := must.Get(remote.Instance())(t)
	running := begin(t, remote, 1, "exec sleep 300")
	link := linkOf(remote)
	must.Do(t, unix.Kill(remote.Standing().PID, unix.SIGKILL))
	<-link.lost
	after := must.Get(remote.Instance())(t)
	if after == before {
		t.Error("the new runner has the name of the old one: a start that it never heard of would be repeated")
	}
	if remote.Ended(before) {
		t.Error("a killed runner counts as ended: what it was asked to start would be started again")
	}
	// The job lives on, can be signalled, and is not said to have an outcome.
	proctest.Until(t, "it is signalled", func() bool { return running.Signal(15) == nil })
	orphan, err := wait(running)
	if !errors.Is(err, jobexec.ErrOutcomeUnknown) || orphan.Result != "" {
		t.Errorf("nobody can know how a job ended whose runner was killed: %+v, %v", orphan, err)
	}
	ranFor(t, "the orphan", orphan, time.Microsecond, since)
	done := must.Get(wait(begin(t, remote, 2, "exit 5")))(t)
	check.Equal(t, *done.Code, 5, "error …, done %+v", done)
}

// A connection that breaks while worker and runner live costs nothing: the worker connects again
// and goes on with the same jobs.
func TestALostConnectionIsMadeAgain(t *testing.T) {
	t.Parallel()
	gate := fifo(t)
	remote := open(t, t.TempDir())
	before := must.Get(remote.Instance())(t)
	waits := begin(t, remote, 1, "read line <"+gate+"; echo $line; exit 7")
	runs := begin(t, remote, 2, "exec sleep 300")
	const size = 200_000
	large := begin(t, remote, 3, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size))
	<-large.Ended() // but its output is with the runner
	lost := linkOf(remote)
	lost.conn.Close()
	<-lost.lost

	if done, err := large.Outcome(); err != nil || string(done.Stdout.Kept) != strings.Repeat("x", size) || done.Reason != "" {
		t.Errorf("the large output: error %v, %d bytes, reason %q", err, len(done.Stdout.Kept), done.Reason)
	}
	proctest.Until(t, "the running job is signalled", func() bool { return runs.Signal(15) == nil })
	if done, err := wait(runs); err != nil || done.Signal != "SIGTERM" {
		t.Errorf("the signalled job: error %v, done %+v", err, done)
	}
	must.Do(t, os.WriteFile(gate, []byte("after\n"), 0))
	if done, err := wait(waits); err != nil || *done.Code != 7 || string(done.Stdout.Kept) != "after\n" {
		t.Errorf("the job that waits: error %v, done %+v", err, done)
	}
	check.Equal(t, must.Get(remote.Instance())(t), before, "the runner is … now")
}

// Regression: the order to forget large outputs was lost with the connection. The next one had the outputs
// again, nobody wanted them, and no other large output was ever fetched.
func TestWhatWasForgottenOverALostConnectionTakesNoRoom(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	const size = 200_000
	large := func(job int64) jobexec.Process {
		return begin(t, remote, job, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size))
	}
	for job := range int64(largeOutputs) {
		if done, err := wait(large(job + 1)); err != nil || len(done.Stdout.Kept) != size {
			t.Fatalf("error %v, %d bytes", err, len(done.Stdout.Kept))
		}
	}
	lost := linkOf(remote)
	lost.conn.Close()
	<-lost.lost
	for job := range int64(largeOutputs) {
		lost.forget(wire.ID{Job: job + 1, Attempt: 1}) // as the worker does that has not noticed yet
	}
	for job := range int64(largeOutputs) {
		job += largeOutputs + 1
		if done, err := wait(large(job)); err != nil || len(done.Stdout.Kept) != size {
			t.Errorf("error %v, %d bytes", err, len(done.Stdout.Kept))
		}
		remote.Forget(job, "", 1)
	}
}

// Processes that were replaced leave nothing in the runner: no descriptor, no zombie. It makes no thread behind
// its start, whatever it does: it would end where it could not make one, as when jobs have taken all that their
// user may have.
func TestProcessesThatWereReplacedLeaveNothing(t *testing.T) {
	t.Parallel()
	k := keep(t, t.TempDir())
	pid := k.Standing().PID
	has := func(what string) int {
		entries := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/%s", pid, what)))(t)
		return len(entries)
	}
	threads := has("task")
	k.SetPools([]jobexec.Pool{{
		Target: "mail", Mode: jobexec.ModePool, Argv: []string{"/bin/sh", "-c", poolLoop},
		Env: append(os.Environ(), "JOBS="+k.jobs), Slots: 2, Keep: jobexec.Keep{MaxJobs: 1},
	}})
	var others []jobexec.Process
	for job := range int64(20) {
		others = append(others, begin(t, k.Remote, 1000+job, "head -c 1000 /dev/zero; sleep 0.5"))
	}
	job := int64(0)
	after := func(jobs int64) (descriptors, children int) {
		for ; job < jobs; job++ {
			done := must.Get(wait(asked(t, k.Remote, k.spec(job+1, "true"))))(t)
			must.Equal(t, done.Result, "ok", "job %d: %+v", job, done)
			k.Forget(job+1, workerToken, 1)
		}
		k.until("new ones are ready", func(s jobexec.PoolStanding) bool {
			return s.Recycled["max_jobs"] == jobs && s.Ready == 2 && s.Processes == 2 && s.Jobs == jobs
		})
		return has("fd"), len(proc.Children(pid))
	}
	for _, p := range others {
		must.Get(wait(p))(t)
	}
	const few, many = 10, 200
	descriptors, children := after(few)
	what := fmt.Sprintf("the runner has %d descriptors and %d children, as after %d jobs", descriptors, children, few)
	proctest.Until(t, what, func() bool { // while it reads below /proc it has more
		now, there := after(many)
		return now <= descriptors && there <= children
	})
	if now := has("task"); now > threads {
		t.Errorf("%d threads at the start, %d later", threads, now)
	}
}

// startChild starts a process in a group of its own, as runners do. ended waits for its end.
func startChild(t *testing.T, text string) (started journal.Started, ended func() *exec.ExitError) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", text)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // it may just have ended
			_ = cmd.Wait()
		}
	})
	bootID := must.Get(proc.BootID())(t)
	started = journal.Started{Pid: cmd.Process.Pid, StartTime: proc.StartTime(cmd.Process.Pid), BootID: bootID}
	return started, func() (exit *exec.ExitError) {
		errors.As(cmd.Wait(), &exit)
		return exit
	}
}

// adopt has a worker take up a process of a former runner's, with its limit.
func adopt(t *testing.T, started journal.Started, limit wire.Limit) (p jobexec.Process, alive bool) {
	t.Helper()
	bootID := must.Get(proc.BootID())(t)
	r := &Remote{bootID: bootID, config: Config{Dir: t.TempDir()}}
	return r.Adopt(jobexec.Spec{Timeout: limit.Timeout, KillAfter: limit.Kill}, started)
}

func TestAdoptFindsAProcessAgain(t *testing.T) {
	t.Parallel()
	started, _ := startChild(t, "exec sleep 300")
	if started.Pid <= 0 || started.StartTime == 0 || started.BootID == "" {
		t.Errorf("process %+v", started)
	}
	other := started
	other.StartTime++
	if _, alive := adopt(t, other, wire.Limit{}); alive {
		t.Error("pitfall 29: another process with the same id was taken for the job's")
	}
	other = started
	other.BootID = "another boot"
	if _, alive := adopt(t, other, wire.Limit{}); alive {
		t.Error("pitfall 29: a process of another boot was taken for the job's")
	}
	gone, ended := startChild(t, "true")
	ended()
	if _, alive := adopt(t, gone, wire.Limit{}); alive {
		t.Error("a process that is gone was adopted")
	}
}

func TestAnAdoptedProcessIsSignalledAndWaitedFor(t *testing.T) {
	t.Parallel()
	since := proc.Uptime()
	started, ended := startChild(t, "exec sleep 300")
	adopted, alive := adopt(t, started, wire.Limit{})
	if !alive {
		t.Fatal("a process that runs was not adopted")
	}
	check.Do(t, adopted.Signal(15), "signal")
	done, err := wait(adopted)
	if !errors.Is(err, jobexec.ErrOutcomeUnknown) {
		t.Error("the outcome of somebody else's child can't be known")
	}
	ranFor(t, "the adopted process", done, time.Microsecond, since)
	if err := adopted.Signal(0); err == nil {
		t.Error("a process that is gone was signalled")
	}
	if exit := ended(); exit == nil || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", exit)
	}
}

package gearman

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/net/gearman"
	"jobd/store/storetest/must"
)

func TestForegroundJob(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	client, runner := connect(t, address), able(t, address, "resize")
	client.send(gearman.SubmitJobHigh, "resize", "one", "a picture\x00with NUL")
	client.want(gearman.JobCreated, "H:node:1")
	if got := runner.grab(); got != "H:node:1\x00resize\x00one\x00a picture\x00with NUL" {
		t.Fatalf("assigned: %q", got)
	}
	if got := w.row(1, "status || priority || CAST(workload AS TEXT)"); got != "waiting1a picture\x00with NUL" {
		t.Errorf("the row: %q", got)
	}
	runner.send(gearman.WorkStatus, "H:node:1", "1", "3")
	runner.send(gearman.WorkData, "H:node:1", "half")
	runner.send(gearman.WorkWarning, "H:node:1", "hm")
	client.want(gearman.WorkStatus, "H:node:1", "1", "3")
	client.want(gearman.WorkData, "H:node:1", "half")
	client.want(gearman.WorkWarning, "H:node:1", "hm")
	client.send(gearman.GetStatus, "H:node:1")
	client.want(gearman.StatusRes, "H:node:1", "1", "1", "1", "3")
	client.send(gearman.GetStatusUnique, "one")
	client.want(gearman.StatusResUnique, "one", "1", "1", "1", "3", "1")
	long := strings.Repeat("x", 200_000)
	runner.send(gearman.WorkComplete, "H:node:1", long)
	if got := client.want(gearman.WorkComplete, "H:node:1"); got != long {
		t.Errorf("a result of %d bytes, not %d", len(got), len(long))
	}
	if err := <-w.ends; err != nil || w.row(1, "length(stdout)") != "1000" || w.row(1, "stderr") != "hm" {
		t.Errorf("%v, stdout of %s bytes, stderr %s", err, w.row(1, "length(stdout)"), w.row(1, "stderr"))
	}
	client.send(gearman.GetStatus, "H:node:1")
	client.want(gearman.StatusRes, "H:node:1", "0", "0", "0", "0")
	runner.send(gearman.WorkComplete, "H:node:1", "again")
	runner.want(gearman.Error, "JOB_NOT_FOUND")
}

// What a launcher's process writes comes as it is written, and the whole of it at the end.
func TestOutputOfLaunchers(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	p := connect(t, address)
	p.send(gearman.SubmitJob, "f", "", "")
	p.want(gearman.JobCreated, "H:node:1")
	w.front.Committed([]journal.Event{{Seq: 5, Job: 1, Payload: journal.Started{Pid: 7}}})
	writes := func(text string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.written[1] = text
	}
	writes("one ")
	p.want(gearman.WorkData, "H:node:1", "one ")
	writes("one two")
	p.want(gearman.WorkData, "H:node:1", "two")
	w.front.Committed([]journal.Event{{Seq: 6, Job: 1, Payload: journal.Done{Result: "ok", Stdout: journal.Output{Kept: []byte("one two")}}}})
	p.want(gearman.WorkComplete, "H:node:1", "one two")
}

func TestFailuresAndExceptions(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	plain, curious, runner := connect(t, address), connect(t, address), able(t, address, "f")
	curious.send(gearman.OptionReq, "exceptions")
	curious.want(gearman.OptionRes, "exceptions")
	curious.send(gearman.OptionReq, "colours")
	curious.want(gearman.Error, "UNKNOWN_OPTION")
	for i, p := range []*peer{plain, curious} {
		p.send(gearman.SubmitJob, "f", "same", strconv.Itoa(i))
		p.want(gearman.JobCreated, "H:node:1")
	}
	runner.grab()
	runner.send(gearman.WorkException, "H:node:1", "it broke")
	plain.want(gearman.WorkFail, "H:node:1")
	curious.want(gearman.WorkException, "H:node:1", "it broke")
	runner.send(gearman.WorkFail, "H:node:1") // as libraries do behind an exception
	runner.want(gearman.Error, "JOB_NOT_FOUND")
	if <-w.ends; w.row(1, "result || stderr") != "failit broke" {
		t.Errorf("the row: %s", w.row(1, "result || stderr"))
	}
	plain.send(gearman.SubmitJob, "f", "", "x")
	handle := plain.want(gearman.JobCreated)
	runner.grab()
	runner.send(gearman.WorkFail, handle)
	plain.want(gearman.WorkFail, handle)
}

// What a worker has asked for, and has not got yet, is known not to have run; what it has got is unknown.
func TestWorkerIsLost(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	client := connect(t, address)
	runner := able(t, address, "f")
	client.send(gearman.SubmitJob, "f", "", "")
	handle := client.want(gearman.JobCreated)
	runner.grab()
	must.Do(t, runner.conn.Close())
	client.want(gearman.WorkFail, handle)
	if err := <-w.ends; !errors.Is(err, jobexec.ErrOutcomeUnknown) {
		t.Errorf("it ended with %v", err)
	}
	slow := connect(t, address)
	slow.send(gearman.CanDoTimeout, "f", "1")
	slow.synced()
	client.send(gearman.SubmitJob, "f", "", "")
	handle = client.want(gearman.JobCreated)
	slow.grab()
	client.want(gearman.WorkFail, handle)
	if err := <-w.ends; !errors.Is(err, jobexec.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "CAN_DO_TIMEOUT") {
		t.Errorf("it ended with %v", err)
	}
	slow.send(gearman.WorkComplete, handle, "late")
	slow.want(gearman.Error, "JOB_NOT_FOUND")
}

// A job that is cancelled between GRAB_JOB and JOB_ASSIGN was never sent, and its worker hears NO_JOB.
func TestCancelledBeforeItIsSent(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	runner := able(t, address, "f")
	client := connect(t, address)
	client.send(gearman.SubmitJob, "f", "", "")
	client.want(gearman.JobCreated, "H:node:1")
	process := must.Get(Beside(w.front, nil).Start(jobexec.Spec{Mode: jobexec.ModeGearman, Target: "f", Job: 1, Attempt: 1}))(t)
	runner.send(gearman.GrabJob)
	<-process.Begun()
	must.Do(t, process.Signal(15))
	<-process.Ended()
	process.(jobexec.Held).Proceed()
	runner.want(gearman.NoJob)
	if done, err := process.Outcome(); err != nil || done.Result != "fail" || done.Signal != "SIGTERM" {
		t.Errorf("%+v, %v", done, err)
	}
	if err := process.Signal(15); err == nil {
		t.Error("a signal reached a job that is over")
	}
	waits := must.Get(Beside(w.front, nil).Start(jobexec.Spec{Mode: jobexec.ModeGearman, Target: "f", Job: 1, Attempt: 1}))(t)
	waits.(interface{ Withdraw() }).Withdraw()
	<-waits.Ended()
	var not *jobexec.NotStartedError
	if _, err := waits.Outcome(); !errors.As(err, &not) {
		t.Errorf("a start that was taken back ended with %v", err)
	}
}

// A long workload is read when a worker has asked for its job, which may go meanwhile, or be cancelled.
func TestLongWorkload(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	long := strings.Repeat("x", longWorkload+1)
	client := connect(t, address)
	client.send(gearman.SubmitJobBg, "f", "u", long)
	client.want(gearman.JobCreated, "H:node:1")
	var runner *peer
	asked := func() *run {
		if runner == nil {
			runner = able(t, address, "f")
		}
		r := w.front.executor.start(jobexec.Spec{Target: "f", Job: 1, Attempt: 1})
		runner.send(gearman.PreSleep)
		runner.want(gearman.Noop)
		if r.mu.Lock(); len(r.workload.Bytes) > 0 || r.long != len(long) {
			t.Errorf("%d bytes are there before a worker has asked, of %d", len(r.workload.Bytes), r.long)
		}
		r.mu.Unlock()
		runner.send(gearman.GrabJobUniq)
		<-r.Begun()
		return r
	}
	ended := func(r *run) (journal.Done, bool) {
		<-r.Ended()
		done, err := r.Outcome()
		var not *jobexec.NotStartedError
		return done, errors.As(err, &not)
	}

	r := asked()
	r.Proceed()
	if got := runner.want(gearman.JobAssignUniq, "H:node:1", "f", "u"); got != long {
		t.Errorf("a workload of %d bytes", len(got))
	}
	runner.send(gearman.WorkComplete, "H:node:1", "")
	if done, _ := ended(r); done.Result != "ok" {
		t.Errorf("it ended as %+v", done)
	}

	r = asked()
	must.Do(t, r.Signal(15))
	r.loadLong(r.long)
	runner.want(gearman.NoJob)
	if done, _ := ended(r); done.Signal != "SIGTERM" {
		t.Errorf("what was cancelled ended as %+v", done)
	}
	runner.synced()

	r = asked()
	must.Get(w.db.Exec("DELETE FROM jobs"))(t)
	r.Proceed()
	runner.want(gearman.NoJob)
	if done, not := ended(r); !not {
		t.Errorf("what can't be read ended as %+v", done)
	}

	client.send(gearman.SubmitJobBg, "f", "u", long)
	client.want(gearman.JobCreated)
	must.Get(w.db.Exec("UPDATE jobs SET id = 1"))(t)
	r = asked()
	must.Do(t, runner.conn.Close())
	if done, not := ended(r); !not {
		t.Errorf("what a worker was not sent ended as %+v", done)
	}
	r.loadLong(r.long)
}

// A client that waits for several jobs gets all of their results, however long they are together.
func TestLongResultsAtOnce(t *testing.T) {
	t.Parallel()
	w, address := start(t, func(c *Config, _ *Parts) { c.MaxPacket = 32 << 20 })
	client, runner := connect(t, address), able(t, address, "f")
	long := strings.Repeat("x", 24<<20)
	for i := range 3 { // whose answers the client takes in another order than it asks
		client.send(gearman.SubmitJob, "f", "", "")
		if i == 0 {
			client.want(gearman.JobCreated, "H:node:1")
		}
		handle, _, _ := strings.Cut(runner.grab(), "\x00")
		runner.send(gearman.WorkComplete, handle, long)
		if err := <-w.ends; err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []gearman.Kind{
		gearman.WorkComplete, gearman.JobCreated, gearman.WorkComplete, gearman.JobCreated, gearman.WorkComplete,
	} {
		if got := client.want(kind); kind == gearman.WorkComplete && len(got) != len(long) {
			t.Errorf("a result of %d bytes", len(got))
		}
	}
}

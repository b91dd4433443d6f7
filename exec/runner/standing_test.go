package runner

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/proctest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// The worker knows which process the runner is, whoever has started it, and since when it is connected.
func TestTheRunnersProcessIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	remote := open(t, dir)
	job := begin(t, remote, 1, "exec sleep 300") // which keeps the runner
	before := remote.Standing()
	if who, _ := proc.RelativesOf(job.Started().Pid); before.Err != nil || before.Since.IsZero() || who.Parent != before.PID {
		t.Fatalf("%+v, which is not the parent of its job: %+v", before, who)
	}
	must.Do(t, remote.Close())
	if closed := remote.Standing(); closed.Err == nil || closed.PID != 0 || closed.Since.Before(before.Since) {
		t.Errorf("closed: %+v", closed)
	}
	next := open(t, dir) // as a worker that was started again
	after := next.Standing()
	if after.PID != before.PID || after.Err != nil || !after.Since.After(before.Since) {
		t.Errorf("the next worker: %+v, want process %d", after, before.PID)
	}
	recalled := next.Recall(nil)[0].Process
	lost := linkOf(next) // before that: a process without its runner soon makes the worker start another one
	must.Do(t, unix.Kill(after.PID, unix.SIGKILL))
	<-lost.lost
	must.Get(next.Instance())(t)
	if new := next.Standing(); new.PID == after.PID || new.PID == 0 || new.Err != nil || !new.Since.After(after.Since) || new.Links != after.Links+1 {
		t.Errorf("behind one that was killed: %+v, before %+v", new, after)
	}
	for recalled.Signal(int(unix.SIGKILL)) != nil { // until it is somebody's again
		runtime.Gosched()
	}
	<-recalled.Ended()
}

// A runner that stands still is connected, and yet no job can be started: that is told until it goes
// on. One that has nothing to answer is not suspected, however long it is silent.
func TestARunnerThatStandsStillIsTold(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	runner := remote.Standing().PID
	first := begin(t, remote, 1, "exec sleep 300")
	later := time.Now().Add(time.Hour)
	told := func() Standing { return remote.standing(later) }
	if now := told(); now.Err != nil {
		t.Errorf("it has answered all: %+v", now)
	}
	proctest.Stop(t, runner)
	second := asked(t, remote, script("exec sleep 300"))
	if now := told(); !errors.Is(now.Err, errStandsStill) || now.Since.IsZero() || now.PID != runner || now.Links != 1 {
		t.Errorf("it stands still: %+v", now)
	}
	if now := remote.standing(time.Now().Add(-time.Hour)); now.Err != nil {
		t.Errorf("it may take a moment: %+v", now)
	}
	must.Do(t, unix.Kill(runner, unix.SIGCONT))
	<-second.Begun()
	if now := told(); now.Err != nil {
		t.Errorf("it goes on: %+v", now)
	}
	for _, p := range []jobexec.Process{first, second} {
		check.Do(t, p.Signal(9))
		<-p.Ended()
	}
}

// Why there is no runner is told with the newest reason, and since the first.
func TestARunnerThatIsMissedIsToldSinceTheFirstTry(t *testing.T) {
	t.Parallel()
	r := &Remote{}
	r.misses(errors.New("no such file")) //nolint:errcheck // it is that error
	first := r.missed.Since
	r.misses(errors.New("permission denied")) //nolint:errcheck // it is that error
	if got := r.Standing(); first.IsZero() || got.Since != first || got.Err.Error() != "permission denied" || got.PID != 0 {
		t.Errorf("%+v, want since %v", got, first)
	}
}

// of starts a job for a claim.
func of(t *testing.T, remote *Remote, token, text string) jobexec.Process {
	t.Helper()
	spec := script(text)
	spec.Token, spec.Attempt = token, 1
	return asked(t, remote, spec)
}

// A row comes back, and another claim starts the job under the same number, while the runner still
// has the outcome of the one before. Each has its own.
func TestTwoClaimsOfOneJob(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	remote := open(t, dir)
	if done, err := wait(of(t, remote, "@first2345", "echo first; exit 1")); err != nil || *done.Code != 1 {
		t.Fatalf("error %v, done %+v", err, done)
	}
	second := of(t, remote, "@second234", "echo second; exec sleep 300")
	<-second.Begun()
	glance := jobexec.Glance{Job: 1, Token: "@second234", Attempt: 1, Most: 100}
	look(t, remote, glance, "second\n")
	twice := of(t, remote, "@second234", "exit 0")
	if _, err := wait(twice); err == nil || twice.Started().Pid != 0 {
		t.Errorf("one claim's start was done twice: %v", err)
	}
	must.Do(t, remote.Close())

	next := open(t, dir)
	recalled := make(map[string]jobexec.Process)
	for _, r := range next.Recall([]jobexec.Spec{{Job: 1, Token: "@second234", Attempt: 1}}) {
		recalled[r.Token] = r.Process
	}
	must.Equal(t, len(recalled), 2, "recalled are %v", recalled)
	next.Forget(1, "@first2345", 1)
	check.Do(t, recalled["@second234"].Signal(15))
	if done, err := wait(recalled["@second234"]); err != nil || done.Signal != "SIGTERM" || string(done.Stdout.Kept) != "second\n" {
		t.Errorf("error %v, done %+v", err, done)
	}
	if done, err := wait(recalled["@first2345"]); err != nil || *done.Code != 1 || string(done.Stdout.Kept) != "first\n" {
		t.Errorf("error %v, done %+v", err, done)
	}
}

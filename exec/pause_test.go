package exec_test

import (
	"context"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// Regression: a paused target kept its prefetched rows. LENGTH never reached 0, and nobody else
// could run them.
func TestPauseGivesBackWhatHasNotStarted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b"), manual(3, "b")), nil)
	f.start()
	p := f.next()
	f.claimed(2)
	f.manual(3)
	must.Do(t, f.worker.Pause([]string{"b"}, "me"))
	f.reach(map[int64]string{2: journal.RowWaiting, 3: journal.RowAccepted})
	release := f.events(2)[1].Payload.(journal.Released)
	if release.Reason != "the target was paused" || release.Target != "b" || release.Manual || release.Token == "" {
		t.Errorf("released: %+v", release)
	}
	p.exit(0)
	f.until("only the manual job is left", func(s jobexec.Status) bool { return s.Targets["b"].Length == 1 })
	f.none()
	must.Do(t, f.worker.Continue(nil, "me"))
	if p := f.next(); p.spec.Job != 3 {
		t.Errorf("job %d was started first, want the manual one that waited", p.spec.Job)
	} else {
		p.exit(0)
	}
	f.next().exit(0)
}

// Regression: a job was started five seconds after a pause was answered, when a database that was
// frozen came back.
func TestNothingStartsAfterAPause(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b"), manual(3, "a"), manual(4, "a"), manual(5, "a")), nil)
	f.start()
	first := f.next()
	go func() { _, _ = f.worker.RunManual(context.Background(), []int64{3, 4, 5}, "me") }()
	second := f.next()
	f.next()
	f.claimed(5)
	held := f.hold(first, 2)
	second.exit(0)
	f.wait("the manual job is announced too", func(s *journal.State) bool { return s.Job(5).Status == journal.StatusStarting })
	must.Do(t, f.worker.Pause(nil, "me"))
	f.wait("the background job is given back", func(s *journal.State) bool { return s.Job(2).Status.Ended() })
	close(held) // the database is back
	f.until("the manual job waits", func(s jobexec.Status) bool { return s.Targets["b"].Length == 0 && s.Targets["a"].Length == 2 })
	f.none()
	must.Do(t, f.worker.Continue([]string{"a"}, "me"))
	if p := f.next(); p.spec.Job != 5 || p.spec.Attempt != 1 {
		t.Errorf("job %d was started, attempt %d", p.spec.Job, p.spec.Attempt)
	}
	f.none()
	if n := count(f.story(5), journal.KindStarted); n > 1 {
		t.Errorf("started %d times", n)
	}
}

// A start that the runner is being asked for is waited for: when Pause returns it has happened.
func TestPauseWaitsForAStartUnderWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	late := &lateRunner{f.runner, 1, make(chan struct{}), make(chan error)}
	f.build(func(c *jobexec.Config) { c.Runner = late })
	f.start()
	<-late.asked
	paused := make(chan error, 1)
	go func() { paused <- f.worker.Pause(nil, "me") }()
	f.wait("the pause is journalled", func(s *journal.State) bool { return s.Targets["a"].Paused })
	select {
	case <-paused:
		t.Error("the pause was answered while a start was under way")
	case <-time.After(50 * time.Millisecond):
	}
	late.answer <- nil
	must.Do(t, <-paused)
	select {
	case p := <-f.runner.started:
		p.exit(0)
	default:
		t.Error("nothing was started when the pause was answered")
	}
}

// A claim whose COMMIT is under way when its target is paused is won, and given back; its job does
// not start.
func TestAClaimUnderWayIsGivenBackWhenItsTargetIsPaused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "a"), waiting(3, "a")), nil)
	committing, paused := make(chan struct{}), make(chan struct{})
	f.table.commit = func(apply func()) error {
		close(committing)
		<-paused
		apply()
		return nil
	}
	f.start()
	<-committing
	must.Do(t, f.worker.Pause(nil, "me"))
	close(paused)
	f.wait("all are given back", func(s *journal.State) bool { return len(s.Jobs) == 0 })
	f.none()
	f.until("nothing is left here", func(s jobexec.Status) bool { return s.Targets["a"].Length == 0 })
}

// silentRunner starts processes, and does not tell that they run before it is asked to.
type silentRunner struct {
	*runner
	tell chan struct{} // closed when it tells
}

type silentProcess struct {
	jobexec.Process
	begun <-chan struct{}
}

func (p silentProcess) Begun() <-chan struct{} { return p.begun }

func (r silentRunner) Start(spec jobexec.Spec) (jobexec.Process, error) {
	tell := spec.Tell
	spec.Tell = func(n jobexec.News) {
		if !n.Ended {
			<-r.tell
		}
		tell(n)
	}
	p, err := r.runner.Start(spec)
	return silentProcess{p, r.tell}, err
}

// Regression: the runner stood still when a pause was answered, and did afterwards what it had been
// asked for before.
func TestAPauseIsAnsweredWhenTheRunnerHasToldOfAllStarts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "b")), nil)
	silent := silentRunner{f.runner, make(chan struct{})}
	f.build(func(c *jobexec.Config) { c.Runner = silent })
	f.start()
	f.next()
	f.next()
	paused := make(chan error, 1)
	go func() { paused <- f.worker.Pause([]string{"a"}, "me") }()
	f.wait("the pause is journalled", func(s *journal.State) bool { return s.Targets["a"].Paused })
	select {
	case err := <-paused:
		t.Errorf("the pause was answered with %v while nobody knew whether the job had started", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(silent.tell)
	if err := <-paused; err != nil {
		t.Error(err)
	}
}

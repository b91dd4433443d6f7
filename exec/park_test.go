package exec_test

import (
	"context"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// Regression: a job whose row somebody locked right before it was to start kept its slot as long as
// the lock lasted, and others of its target waited behind it. It is given back, and its row let alone for a while.
func TestAJobWhoseRowIsLockedKeepsNoSlot(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]journal.Row{"waiting": waiting(2, "b"), "manual": manual(2, "b")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, newTable(waiting(1, "b"), second), func(c *jobexec.Config) { c.Prefetch = 5 })
			held := make(chan struct{})
			f.mirror.quarantined = map[int64]chan struct{}{2: held}
			f.start()
			first := f.next()
			told := make(chan string, 1)
			if second.Status == journal.RowManual {
				f.clients.Go(func() {
					answer, _ := f.worker.RunManual(context.Background(), []int64{2}, "me")
					told <- answer.Errors[2]
				})
			}
			f.claimed(2)
			first.exit(0)
			f.wait("it is given back", ended(2))
			if got := words(f.story(2)); got != "accepted running released" {
				t.Errorf("story %q", got)
			}
			const why = "its row can't be updated: somebody has locked it, or a rule of the table refuses it"
			f.until("its row is let alone", func(s jobexec.Status) bool {
				return len(s.Quarantined) == 1 && s.Quarantined[0].Job == 2 && s.Quarantined[0].Reason == why
			})
			if second.Status == journal.RowManual {
				if got := <-told; got != "job 2 was not run: "+why {
					t.Errorf("the client was told %q", got)
				}
			}
			f.table.insert(waiting(3, "b"))
			f.worker.PollAll()
			third := f.next()
			if third.spec.Job != 3 {
				t.Fatalf("job %d was started", third.spec.Job)
			}
			third.exit(0)
			close(held)
			f.wait("the third is done", ended(3))
			f.none()
		})
	}
}

// The end of a job frees its slot when it is known, whether or not its row can show it.
func TestAnEndThatARowDoesNotShowKeepsNoSlot(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	f.mirror.quarantined = map[int64]chan struct{}{1: make(chan struct{})}
	f.start()
	f.next().exit(0)
	if p := f.next(); p.spec.Job != 2 {
		t.Errorf("job %d was started", p.spec.Job)
	}
	if got := f.worker.Status().Targets["b"].Length; got != 1 {
		t.Errorf("length %d, want 1", got)
	}
}

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

package exec_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// What the log says of a job that is parked, and of one that is not any more.
const (
	isParked   = "a job gives up its slot until its row can be updated"
	isUnparked = "the row of a job can be updated again; it is the next of its target"
)

// logged receives what is logged.
type logged chan string

func (l logged) Enabled(context.Context, slog.Level) bool { return true }

func (l logged) Handle(_ context.Context, r slog.Record) error {
	l <- r.Message
	return nil
}

func (l logged) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l logged) WithGroup(string) slog.Handler { return l }

// await waits until something is logged.
func (l logged) await(t *testing.T, message string) {
	t.Helper()
	late := time.After(hung)
	for {
		select {
		case got := <-l:
			if got == message {
				return
			}
		case <-late:
			t.Fatalf("%q: not within %s", message, hung)
		}
	}
}

// newParking makes a worker that does not run yet, with target b, whose job 2 can't be updated once
// it is announced.
func newParking(t *testing.T, table *table, change func(*jobexec.Config)) (f *fixture, log logged, held chan struct{}) {
	t.Helper()
	log, held = make(logged, 1000), make(chan struct{})
	f = newFixture(t, table, nil)
	f.build(func(c *jobexec.Config) {
		c.Logger = slog.New(log)
		if change != nil {
			change(c)
		}
	})
	f.mirror.quarantined = map[int64]chan struct{}{2: held}
	return f, log, held
}

// park runs job 1, and has job 2 parked behind it.
func (f *fixture) park(log logged) {
	f.t.Helper()
	f.start()
	first := f.next()
	f.claimed(2)
	first.exit(0)
	log.await(f.t, isParked)
	f.wait("the first is done", ended(1))
}

// Regression: a job whose row somebody locked right before it was to start kept its slot as long as
// the lock lasted, and others of its target waited behind it.
func TestAJobWhoseRowIsLockedKeepsNoSlot(t *testing.T) {
	t.Parallel()
	f, log, held := newParking(t, newTable(waiting(1, "b"), waiting(2, "b"), waiting(3, "b"), waiting(4, "b")), nil)
	f.park(log)
	third := f.next()
	if third.spec.Job != 3 {
		t.Fatalf("job %d was started", third.spec.Job)
	}
	f.claimed(4)
	f.until("all three count", func(s jobexec.Status) bool { return s.Targets["b"].Length == 3 })
	if f.worker.SendSignal(map[int64]int{2: 15}, "me")[2] {
		t.Error("a job that was not started was signalled")
	}
	close(held)
	log.await(t, isUnparked)
	f.none()
	third.exit(0)
	second := f.next()
	if second.spec.Job != 2 {
		t.Fatalf("job %d was started before the one that had waited longer", second.spec.Job)
	}
	second.exit(0)
	f.wait("it is done", ended(2))
	if got := words(f.story(2)); got != "accepted running running started done" {
		t.Errorf("story %q", got)
	}
	f.next().exit(0)
}

// The mirror knows of a parked job by then that somebody else has its row.
func TestAParkedJobWhoseRowWasTakenIsDropped(t *testing.T) {
	t.Parallel()
	f, log, held := newParking(t, newTable(waiting(1, "b"), manual(2, "b")), nil)
	f.start()
	first := f.next()
	answers := make(chan jobexec.Answer[jobexec.Result], 1)
	go func() {
		answer, _ := f.worker.RunManual(context.Background(), []int64{2}, "me")
		answers <- answer
	}()
	f.claimed(2)
	first.exit(0)
	log.await(t, isParked)
	f.wait("the first is done", ended(1))
	if err := f.worker.RemoveTarget("b", "me"); err == nil {
		t.Error("the target was removed under a parked job")
	}
	must.Do(t, f.worker.RetireTarget("b", "me"))
	must.Get(f.journal.Append(journal.Draft{Job: 2, Payload: journal.Conflict{}}))(t)
	close(held)
	if got := (<-answers).Errors[2]; got != "job 2 was not run: the job's row was changed by somebody else" {
		t.Errorf("the client was told %q", got)
	}
	f.wait("the target is removed", func(s *journal.State) bool { return len(s.Targets) == 1 })
	f.none()
}

// A pause gives parked background jobs back. Manual ones stay, and go on when both the pause and
// the lock have ended.
func TestAPauseGivesAParkedJobBack(t *testing.T) {
	t.Parallel()
	f, log, _ := newParking(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	f.park(log)
	must.Do(t, f.worker.Pause(nil, "me"))
	f.wait("it is given back", func(s *journal.State) bool { return s.Job(2).Status.Ended() })
	if got := words(f.story(2)); got != "accepted running released" {
		t.Errorf("story %q", got)
	}
	f.until("nothing is left", func(s jobexec.Status) bool { return s.Targets["b"].Length == 0 })
}

// See above.
func TestAManualJobStaysParkedThroughAPause(t *testing.T) {
	t.Parallel()
	f, log, held := newParking(t, newTable(waiting(1, "b"), manual(2, "b")), nil)
	f.start()
	first := f.next()
	f.manual(2)
	first.exit(0)
	log.await(t, isParked)
	must.Do(t, f.worker.Pause(nil, "me"))
	close(held)
	log.await(t, isUnparked)
	f.until("it waits", func(s jobexec.Status) bool { return s.Targets["b"].Length == 1 })
	f.none()
	must.Do(t, f.worker.Continue(nil, "me"))
	if p := f.next(); p.spec.Job != 2 {
		t.Errorf("job %d was started", p.spec.Job)
	}
}

func TestAStopGivesAParkedJobBack(t *testing.T) {
	t.Parallel()
	for name, handover := range map[string]bool{"stop": false, "handover": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, log, _ := newParking(t, newTable(waiting(1, "b"), waiting(2, "b")), func(c *jobexec.Config) { c.Handover = handover })
			f.park(log)
			f.stop()
			must.Do(t, <-f.ended)
			f.ended <- nil
			if got := words(f.story(2)); got != "accepted running released" {
				t.Errorf("story %q", got)
			}
		})
	}
}

// A job of a second attempt can't be given back; the next start takes it up.
func TestAStopLeavesAParkedSecondAttempt(t *testing.T) {
	t.Parallel()
	claim := journal.Accepted{Target: "b", Token: "@abcdefghi"}
	f, log, _ := newParking(t, newTable(), func(c *jobexec.Config) { c.Requeue = true })
	for _, p := range []journal.Payload{claim, journal.Running{Attempt: 1, Runner: "runner-0", Token: claim.Token}} {
		must.Get(f.journal.Append(journal.Draft{Job: 2, Payload: p}))(t)
	}
	f.start()
	log.await(t, isParked)
	f.stop()
	must.Do(t, <-f.ended)
	f.ended <- nil
	if got := words(f.story(2)); got != "accepted running requeued running" {
		t.Errorf("story %q", got)
	}
}

func TestAJournalThatFailsEndsAWorkerWithAParkedJob(t *testing.T) {
	t.Parallel()
	failure := errors.New("fsync: input/output error")
	broken := make(chan struct{})
	f, log, _ := newParking(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	change := func(c *jobexec.Config) {
		c.Logger = slog.New(log)
		c.Recorder = &brokenJournal{f.journal, func([]journal.Draft) error {
			select {
			case <-broken:
				return failure
			default:
				return nil
			}
		}}
	}
	f.build(change)
	f.park(log)
	close(broken)
	f.table.insert(waiting(3, "b"))
	f.worker.PollAll()
	if err := <-f.ended; !errors.Is(err, failure) {
		t.Errorf("Run: %v, want %v", err, failure)
	}
	f.ended <- nil
	f.none()
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

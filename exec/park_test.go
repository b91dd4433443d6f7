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

package exec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// canceller is who cancels jobs in the tests.
const canceller = "10.0.0.5:4711"

// cancel cancels jobs, and gives for each in a word what became of it.
func (f *fixture) cancel(wish jobexec.CancelWish) map[int64]string {
	f.t.Helper()
	wish.By = canceller
	told := must.Get(f.worker.Cancel(f.t.Context(), wish))(f.t)
	words := make(map[int64]string)
	for id, job := range told.Jobs {
		words[id] = [...]string{"not run", "signals", "hurries", "already", "given up"}[job.Did] + " of " + job.Target
	}
	for id, why := range told.Errors {
		words[id] = why
	}
	for id, row := range told.Elsewhere {
		words[id] = row.Status + " elsewhere"
	}
	return words
}

// told checks what became of jobs that were cancelled.
func (f *fixture) told(wish jobexec.CancelWish, want map[int64]string) {
	f.t.Helper()
	if got := f.cancel(wish); fmt.Sprint(got) != fmt.Sprint(want) {
		f.t.Errorf("cancel of %v: %v, want %v", wish.IDs, got, want)
	}
}

// tells checks the story of a job.
func (f *fixture) tells(id int64, want string) {
	f.t.Helper()
	if got := words(f.story(id)); got != want {
		f.t.Errorf("the story of job %d is %q, want %q", id, got, want)
	}
}

// claimed waits until the worker has a job that it has claimed: that is when its claim is won, which
// is later than the journal tells of it.
func (f *fixture) claimed(id int64) {
	f.t.Helper()
	f.until(fmt.Sprintf("job %d is claimed", id), func(jobexec.Status) bool {
		standing := f.worker.Explain([]int64{id})[id].Standing
		return standing != nil && standing.Phase == board.Queued
	})
}

// A job that runs gets SIGTERM, and SIGKILL after the grace. It has failed, whatever it says.
func TestAJobThatRunsIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	f.told(jobexec.CancelWish{IDs: []int64{1}, Grace: time.Hour}, map[int64]string{1: "signals of a"})
	if signo := <-p.signals; signo != 15 {
		t.Errorf("signal %d is the first", signo)
	}
	f.told(jobexec.CancelWish{IDs: []int64{1}, Grace: 2 * time.Hour}, map[int64]string{1: "already of a"})
	f.told(jobexec.CancelWish{IDs: []int64{1}, Grace: time.Millisecond}, map[int64]string{1: "hurries of a"})
	if signo := <-p.signals; signo != 9 {
		t.Errorf("signal %d is the second", signo)
	}
	p.exit(0)
	f.wait("it is done", ended(1))
	f.tells(1, "accepted running started cancelled signal cancelled signal done")
	done := f.outcome(1)
	if rates := f.worker.Status().Targets["a"]; rates.Ended != 1 || rates.Failed != 0 {
		t.Errorf("of %d jobs that ended, %d have failed", rates.Ended, rates.Failed)
	}
	if done.Result != "fail" || *done.Code != 0 || done.Reason != "cancelled by 10.0.0.5" || string(done.ShownStderr().Kept) != "[jobd: cancelled by 10.0.0.5]\n" {
		t.Errorf("it ended as %+v", done)
	}
	for _, e := range f.events(1) {
		if c, is := e.Payload.(journal.Cancelled); is && c.By != canceller {
			t.Errorf("the journal says that %q cancelled it", c.By)
		}
	}
}

// Regression: the signals of a cancel were sent once, and lost where the runner was away at that moment: the
// job was killed hard when its grace was over, or never.
func TestASignalThatIsLostIsSentAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	p.lost.Store(1)
	f.told(jobexec.CancelWish{IDs: []int64{1}, Grace: time.Hour}, map[int64]string{1: "signals of a"})
	if signo := <-p.signals; signo != 15 {
		t.Errorf("signal %d came", signo)
	}
	p.lost.Store(1)
	f.told(jobexec.CancelWish{IDs: []int64{1}, Grace: time.Millisecond}, map[int64]string{1: "hurries of a"})
	if signo := <-p.signals; signo != 9 {
		t.Errorf("signal %d came", signo)
	}
	p.exit(137)
	f.wait("it is done", ended(1))
}

// One that ends by itself within the grace gets no more.
func TestAJobThatEndsInTimeIsNotKilled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "a")), nil)
	f.start()
	p, other := f.next(), f.next()
	f.cancel(jobexec.CancelWish{IDs: []int64{1}, Grace: 20 * time.Millisecond})
	if p.spec.Job != 1 {
		p, other = other, p
	}
	<-p.signals
	p.exit(143)
	f.wait("it is done", ended(1))
	f.cancel(jobexec.CancelWish{IDs: []int64{2}, Grace: 20 * time.Millisecond})
	<-other.signals
	<-other.signals // by then the grace of the first is over
	f.tells(1, "accepted running started cancelled signal done")
}

// The next attempt of a job that ran before does not run; the job has failed.
func TestASecondAttemptIsCancelled(t *testing.T) {
	t.Parallel()
	token := "@abcdefghi"
	row := journal.Row{Job: 1, Target: "b", Status: journal.RowRunning, Owner: token}
	f := newFixture(t, newTable(row), func(c *jobexec.Config) { c.Requeue = true })
	left(t, f.journal, journal.Accepted{Target: "b", Token: token}, journal.Running{Attempt: 1, Runner: "runner-0"}, journal.Started{Pid: 9})
	for _, p := range []journal.Payload{journal.Accepted{Target: "b", Token: "@abcdefghj"}, journal.Running{Attempt: 1}, journal.Started{Pid: 4711}} {
		must.Get(f.journal.Append(journal.Draft{Job: 2, Payload: p}))(t)
	}
	other := &process{pid: 4711, ended: make(chan struct{}), known: true} // has the slot
	f.runner.alive[4711] = other
	f.start()
	for newest := uint64(0); words(f.story(1)) != "accepted running started requeued"; {
		events := must.Get(f.journal.next(t.Context(), newest))(t)
		newest = events[len(events)-1].Seq
	}
	f.told(jobexec.CancelWish{IDs: []int64{1}}, map[int64]string{1: "given up of b"})
	close(other.ended)
	f.tells(1, "accepted running started requeued cancelled done")
	if done := f.outcome(1); done.Result != "fail" || done.Reason != "cancelled by 10.0.0.5" {
		t.Errorf("it ended as %+v", done)
	}
	f.none()
}

// A worker that is started again sends what is due, whatever became of the runner; a job of unknown
// outcome is not run again.
func TestACancelSurvivesARestart(t *testing.T) {
	t.Parallel()
	for name, recalled := range map[string]bool{"the runner lives": true, "the runner is gone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := "@abcdefghi"
			f := newFixture(t, newTable(journal.Row{Job: 1, Target: "a", Status: journal.RowRunning, Owner: token}), func(c *jobexec.Config) { c.Requeue = true })
			left(t, f.journal, journal.Accepted{Target: "a", Token: token}, journal.Running{Attempt: 1, Runner: instance}, journal.Started{Pid: 4711, StartTime: 1, BootID: "boot"},
				journal.Cancelled{By: canceller, Runs: true, Grace: 20_000, Token: token}, journal.Signal{Signo: 15, By: canceller})
			p := &process{pid: 4711, ended: make(chan struct{}), signals: make(chan int, 3), known: recalled, done: journal.Done{Result: "fail", Signal: "SIGKILL"}}
			if recalled {
				f.runner.recalled = []jobexec.Recalled{{Job: 1, Attempt: 1, Process: p}}
			} else {
				f.runner.alive[4711] = p
			}
			f.start()
			if signo := <-p.signals; signo != 9 {
				t.Errorf("signal %d is sent", signo)
			}
			close(p.ended)
			f.wait("it is done", ended(1))
			f.none()
			f.tells(1, "accepted running started cancelled signal signal done")
			if done := f.outcome(1); done.Result != "fail" || !strings.HasPrefix(done.Reason, "cancelled by 10.0.0.5") || (done.Signal == "SIGKILL") != recalled {
				t.Errorf("it ended as %+v", done)
			}
		})
	}
}

// With a full disk nothing is signalled or taken from its queue, and the reason is told.
func TestAFullDiskRefusesACancel(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	f.wait("it runs", func(s *journal.State) bool { return s.Job(1).Status == journal.StatusRunning })
	f.disk.set(errors.New("10 bytes are left"))
	_, err := f.worker.Cancel(t.Context(), jobexec.CancelWish{IDs: []int64{1}, Rows: true, By: canceller})
	var refused jobexec.RefusedError
	if want := "nothing was cancelled: there is no room for the journal: 10 bytes are left"; !errors.As(err, &refused) || err.Error() != want {
		t.Errorf("told %v, want %q", err, want)
	}
	select {
	case signo := <-p.signals:
		t.Errorf("signal %d was sent", signo)
	default:
	}
	f.tells(1, "accepted running started")
}

// Rows that nobody has claimed are ignored, also those of targets that other workers serve; all
// others are left as they are.
func TestRowsThatNobodyHasAreCancelled(t *testing.T) {
	t.Parallel()
	row := func(id int64, status string) journal.Row { return journal.Row{Job: id, Target: "c", Status: status} }
	f := newFixture(t, newTable(
		waiting(1, "c"), manual(2, "a"), row(3, journal.RowDone), row(4, journal.RowIgnored), row(5, journal.RowAccepted), row(6, journal.RowRunning),
		waiting(7, "c"), waiting(9, "c"),
	), nil)
	f.table.locked[9] = true
	f.start()
	all := []int64{1, 2, 3, 4, 5, 6, 7, 8}
	f.told(jobexec.CancelWish{IDs: all}, map[int64]string{}) // this worker has none of them
	f.told(jobexec.CancelWish{IDs: append(all, 9), Rows: true, Targets: map[int64]string{7: "a", 1: "c"}}, map[int64]string{
		1: "not run of c", 2: "not run of a", 3: "job 3 is done already", 4: "job 4 is ignored already",
		5: "accepted elsewhere", 6: "running elsewhere", 7: "job 7 was not cancelled: it is of target 'c', not 'a'",
		8: "job 8 not found", 9: "job 9 was not cancelled: the row is locked by somebody else",
	})
	for id, status := range map[int64]string{1: "ignored", 2: "ignored", 3: "done", 5: "accepted", 6: "running", 7: "waiting", 9: "waiting"} {
		if got := f.table.status(id); got != status {
			t.Errorf("row %d is %s, want %s", id, got, status)
		}
	}
	want := journal.Ignored{Target: "c", Reason: "cancelled by 10.0.0.5", By: canceller}
	if events := f.events(1); len(events) != 1 || events[0].Payload != journal.Payload(want) {
		t.Errorf("the journal says %+v, want %+v", events, want)
	}
}

// Where it is not known whether the update was committed, that is told, and the row tells, also one that is
// locked for a while: the journal ends up saying what the row does.
func TestACancelInDoubt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ committed, locked bool }{
		"committed": {true, false}, "not committed": {false, false},
		"committed, and locked": {true, true}, "not committed, and locked": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, newTable(manual(1, "c")), nil)
			f.start()
			<-f.table.selected
			f.table.change(func() {
				f.table.commit = func(apply func()) error {
					f.table.commit = nil
					if test.committed {
						apply()
					}
					f.table.locked[1] = test.locked
					return errLink
				}
			})
			f.told(jobexec.CancelWish{IDs: []int64{1}, Rows: true}, map[int64]string{
				1: "cancelled by 10.0.0.5; it is not known yet whether the row was marked as ignored",
			})
			if n := f.worker.Status().Doubted; test.locked && n != 1 {
				t.Errorf("%d decisions in doubt, want 1", n)
			}
			f.table.change(func() { clear(f.table.locked) })
			f.until("nothing is in doubt", func(s jobexec.Status) bool { return s.Doubted == 0 })
			if !test.committed {
				f.takenBack("the update was not committed: the row is manual")
				return
			}
			f.tells(1, "ignored")
			if got := f.table.status(1); got != journal.RowIgnored {
				t.Errorf("the row is %s", got)
			}
		})
	}
}

// What the table refuses is told, and taken back.
func TestACancelThatTheTableRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "a"), manual(2, "a")), nil)
	f.table.refused[1] = "a trigger"
	f.start()
	f.told(jobexec.CancelWish{IDs: []int64{1, 2}, Rows: true}, map[int64]string{
		1: "job 1 was not cancelled: the table refuses it: a trigger", 2: "not run of a",
	})
	f.takenBack("a trigger")
}

// With the database away, what the worker has is cancelled; of rows that nobody is known to have
// the reason is told.
func TestACancelWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b"), waiting(3, "c")), nil)
	f.start()
	f.next()
	f.claimed(2)
	f.mirror.setAway(true)
	f.table.change(func() { f.table.commit = func(func()) error { return awayError{errors.New("link lost")} } })
	f.told(jobexec.CancelWish{IDs: []int64{1, 2, 3}, Rows: true}, map[int64]string{
		1: "signals of b", 2: "not run of b",
		3: "job 3 was not cancelled: nobody is known to have it, and the database could not be reached",
	})
}

// takenBack checks that the last that the journal says of job 1 is that it could not be ignored.
func (f *fixture) takenBack(reason string) {
	f.t.Helper()
	events := f.events(1)
	if got := words(f.story(1)); got != "ignored conflict" {
		f.t.Fatalf("story %q", got)
	}
	if diff := cmp.Diff(journal.Conflict{Wanted: "ignored", Reason: reason}, events[1].Payload); diff != "" {
		f.t.Errorf("conflict (-want +got):\n%s", diff)
	}
	if got := f.table.status(1); got != journal.RowManual {
		f.t.Errorf("the row is %s", got)
	}
}

// A row is locked for a moment where a claim is undone; the operator is told what becomes of the next
// try.
func TestAnIgnoringThatWasUndoneIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "c")), nil)
	f.table.commit = failing(1, undone{errors.New("deadlock")})
	f.start()
	f.told(jobexec.CancelWish{IDs: []int64{1}, Rows: true}, map[int64]string{1: "not run of c"})
	f.tells(1, "ignored conflict ignored")
	if got := f.table.status(1); got != journal.RowIgnored {
		t.Errorf("the row is %s", got)
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	f.wait("process is journalled", func(s *journal.State) bool { return s.Job(1).Status == journal.StatusRunning })
	got := f.worker.SendSignal(map[int64]int{1: 15, 2: 15}, "127.0.0.1:9")
	if diff := cmp.Diff(map[int64]bool{1: true, 2: false}, got); diff != "" {
		t.Errorf("delivered (-want +got):\n%s", diff)
	}
	if signo := <-p.signals; signo != 15 {
		t.Errorf("signal %d", signo)
	}
	for signo, want := range map[int]bool{0: true, -1: false, 65: false} {
		if got := f.worker.SendSignal(map[int64]int{1: signo}, "me")[1]; got != want {
			t.Errorf("signal %d delivered: %t, want %t", signo, got, want)
		}
	}
	p.exit(0)
	f.wait("job is done", ended(1))
	if f.worker.SendSignal(map[int64]int{1: 15}, "me")[1] {
		t.Error("a signal to a job that is done was delivered")
	}
	if n := count(f.story(1), journal.KindSignal); n != 1 {
		t.Errorf("%d signals in the journal, want the one that was sent", n)
	}
}

// The row says running before the process is there; a signal that comes in between waits for it.
func TestASignalToAJobThatIsJustStarted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	late := &lateRunner{f.runner, 1, make(chan struct{}), make(chan error)}
	f.build(func(c *jobexec.Config) { c.Runner = late })
	f.start()
	<-late.asked
	go func() {
		<-time.After(10 * time.Millisecond) // the signal is there first, most likely
		late.answer <- nil
	}()
	if !f.worker.SendSignal(map[int64]int{1: 15}, "me")[1] {
		t.Error("the row says running, but the signal was not delivered")
	}
	f.next().exit(1)
	f.wait("job is done", ended(1))
	if got, want := words(f.story(1)), "accepted running started signal done"; got != want {
		t.Errorf("story %q, want %q", got, want)
	}
}

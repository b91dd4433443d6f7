package exec_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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

// A job that waits for its slot leaves the queue; the one behind it runs.
func TestAJobThatWaitsIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b"), waiting(3, "b")), func(c *jobexec.Config) { c.Prefetch = 5 })
	f.start()
	first := f.next()
	f.claimed(2)
	f.claimed(3)
	f.told(jobexec.CancelWish{IDs: []int64{2}, Targets: map[int64]string{2: "a"}}, map[int64]string{2: "job 2 was not cancelled: it is of target 'b', not 'a'"})
	f.told(jobexec.CancelWish{IDs: []int64{2, 2}, Targets: map[int64]string{2: "b"}}, map[int64]string{2: "not run of b"})
	first.exit(0)
	if p := f.next(); p.spec.Job != 3 {
		t.Errorf("job %d is next", p.spec.Job)
	}
	f.tells(2, "accepted cancelled")
	f.told(jobexec.CancelWish{IDs: []int64{2}}, map[int64]string{}) // it is not this worker's any more
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

// Regression: the SIGKILL of a cancelled job was sent once, and lost where the runner was away at that moment.
func TestASignalThatIsLostIsSentAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	f.told(jobexec.CancelWish{IDs: []int64{1}, Grace: time.Hour}, map[int64]string{1: "signals of a"})
	<-p.signals
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

// A start that the runner is being asked for is waited for, and the process signalled.
func TestAJobThatIsJustStartedIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	late := &lateRunner{f.runner, 1, make(chan struct{}), make(chan error)}
	f.build(func(c *jobexec.Config) { c.Runner = late })
	f.start()
	<-late.asked
	told := make(chan map[int64]string)
	go func() { told <- f.cancel(jobexec.CancelWish{IDs: []int64{1}, Grace: time.Hour}) }()
	late.answer <- nil
	p := f.next()
	if got := <-told; got[1] != "signals of a" {
		t.Errorf("told %v", got)
	}
	<-p.signals
	p.exit(143)
	f.wait("it is done", ended(1))
	f.tells(1, "accepted running started cancelled signal done")
}

// A job whose row is locked waits for that, with a slot or without, and is cancelled all the same.
func TestAJobThatIsAnnouncedIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	f.start()
	release := f.hold(f.next(), 2)
	f.mirror.mu.Lock()
	f.mirror.held = nil // but for who waits for it already
	f.mirror.mu.Unlock()
	f.told(jobexec.CancelWish{IDs: []int64{2}}, map[int64]string{2: "not run of b"})
	close(release)
	f.table.insert(waiting(3, "b"))
	f.worker.PollAll()
	if p := f.next(); p.spec.Job != 3 {
		t.Errorf("job %d is started", p.spec.Job)
	}
	f.tells(2, "accepted running cancelled")
}

// A client that waits for the job is told.
func TestAClientIsToldThatItsJobIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), manual(2, "b")), nil)
	f.start()
	f.next()
	answer := make(chan jobexec.Answer[jobexec.Result])
	go func() {
		got, _ := f.worker.RunManual(context.Background(), []int64{2}, "me")
		answer <- got
	}()
	f.claimed(2)
	f.told(jobexec.CancelWish{IDs: []int64{2}}, map[int64]string{2: "not run of b"})
	if got := <-answer; got.Errors[2] != "job 2 was cancelled by 10.0.0.5" {
		t.Errorf("the client was told %+v", got)
	}
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
		events := must.Get(f.journal.Next(t.Context(), newest, 1000))(t)
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

// Regression: the SIGTERM of a cancel was sent once, and lost where the runner was away at that moment: the job
// was killed hard when its grace was over.
func TestTheFirstSignalOfACancelIsSentAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	p.lost.Store(1)
	f.told(jobexec.CancelWish{IDs: []int64{1}, Grace: time.Hour}, map[int64]string{1: "signals of a"})
	if signo := <-p.signals; signo != 15 {
		t.Errorf("signal %d came", signo)
	}
	p.exit(143)
	f.wait("it is done", ended(1))
}

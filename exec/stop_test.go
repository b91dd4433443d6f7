package exec_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

// What ends because of a stop says so; what ends well in spite of its signal has done its work.
func TestTheEndsThatAStopCausesSaySo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "a"), waiting(3, "b")), func(c *jobexec.Config) {
		c.ShutdownTimeout = time.Millisecond
	})
	f.start()
	processes := map[int64]*process{}
	for range 3 {
		p := f.next()
		processes[p.spec.Job] = p
	}
	f.wait("the processes are journalled", func(s *journal.State) bool {
		for id := range processes {
			if s.Job(id).Status != journal.StatusRunning {
				return false
			}
		}
		return true
	})
	f.stop()
	for _, signo := range []int{15, 9} {
		for _, p := range processes {
			if got := <-p.signals; got != signo {
				t.Errorf("signal %d comes, want %d", got, signo)
			}
		}
		f.worker.Hurry()
	}
	processes[1].kill("SIGTERM")
	processes[2].exit(0)
	processes[3].exit(130)
	f.gone()
	const why = "ended because worker node-1 was stopped"
	for id, want := range map[int64]string{1: why, 2: "", 3: why} {
		if done := f.outcome(id); done.Reason != want || done.Note != want {
			t.Errorf("job %d: reason %q and note %q, want %q", id, done.Reason, done.Note, want)
		}
	}
}

// A worker that stops says what it waits for, what comes then and when.
func TestAStopSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "a")), nil)
	log := f.logged(slog.LevelWarn, func(c *jobexec.Config) { c.ShutdownTimeout = time.Hour })
	one, other := f.next(), f.next()
	f.wait("the processes are journalled", func(s *journal.State) bool {
		return s.Job(1).Status == journal.StatusRunning && s.Job(2).Status == journal.StatusRunning
	})
	f.stop()
	told := log.await(t, 1, "WARN", "the stop waits for jobs; those that run for longer get SIGTERM")[0]
	if fmt.Sprint(told["running"], told["jobs"]) != "2 [1 2]" || told["at"] == nil {
		t.Errorf("told %v", told)
	}
	one.exit(0)
	other.exit(0)
	f.gone()
}

func TestHandoverLeavesWhatRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), func(c *jobexec.Config) { c.Handover = true })
	f.start()
	p := f.next()
	f.wait("process is journalled, the other job claimed", func(s *journal.State) bool {
		return s.Job(1).Status == journal.StatusRunning && s.Job(2).Status == journal.StatusAccepted
	})
	f.stop()
	f.gone()
	select {
	case signo := <-p.signals:
		t.Errorf("signal %d was sent", signo)
	default:
	}
	f.journal.View(func(s *journal.State) {
		if len(s.Jobs) != 1 || s.Job(1).Status != journal.StatusRunning || s.Open {
			t.Errorf("left behind: open %t, jobs %v", s.Open, s.Jobs)
		}
	})
	// The next start takes it up.
	f.runner.recalled = []jobexec.Recalled{{Job: 1, Attempt: 1, Process: p}}
	f.table.insert(manual(2, "b"))
	f.build(nil)
	f.start()
	p.exit(3)
	f.wait("the job is done", ended(1))
}

func TestAClientIsToldThatItsJobGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "a")), nil)
	f.start()
	answers := f.client(1)
	f.next()
	f.worker.HandOver()
	f.stop()
	want := "job 1 goes on while the worker restarts; its row will tell how it ended"
	if got := (<-answers).Errors[1]; got != want {
		t.Errorf("the client was told %q, want %q", got, want)
	}
	f.gone()
}

// lateRunner answers the start of a job when it is told to, with an error or by starting it.
type lateRunner struct {
	*runner
	job    int64
	asked  chan struct{} // closed by that start
	answer chan error
}

func (r *lateRunner) Start(spec jobexec.Spec) (jobexec.Process, error) {
	if spec.Job != r.job {
		return r.runner.Start(spec)
	}
	close(r.asked)
	if err := <-r.answer; err != nil {
		return nil, err
	}
	return r.runner.Start(spec)
}

// A start that fails because its runner has changed, while the worker hands over, is given back
// before the journal says that the worker has closed.
func TestNothingIsJournalledBehindTheEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	late := &lateRunner{f.runner, 2, make(chan struct{}), make(chan error)}
	end := &endJournal{f.journal, make(chan struct{})}
	f.build(func(c *jobexec.Config) { c.Handover, c.Runner, c.Recorder = true, late, end })
	f.start()
	first := f.next()
	f.claimed(2)
	first.exit(0)
	<-late.asked
	f.stop()
	for {
		if _, err := f.worker.RunManual(t.Context(), nil, "me"); err != nil {
			break // it is stopping
		}
	}
	late.answer <- jobexec.ErrRunnerChanged
	f.gone()
	var newest uint64
	f.journal.View(func(s *journal.State) { newest = s.Seq })
	quiet, cancel := context.WithTimeout(t.Context(), 3*overtaken)
	defer cancel()
	if events, err := f.journal.next(quiet, newest-1); err != nil || events[0].Kind() != journal.KindClosed {
		t.Fatalf("the last event is not the worker's end: %v, %v", events, err)
	}
	if events, err := f.journal.next(quiet, newest); err == nil {
		t.Errorf("behind the worker's end the journal has %v", events)
	}
	if story := words(f.story(2)); story != "accepted running released" {
		t.Errorf("story %q", story)
	}
}

// endJournal lets the worker's end overtake a release, if it can.
type endJournal struct {
	*memory
	closed chan struct{}
}

const overtaken = 100 * time.Millisecond

func (e *endJournal) Append(drafts ...journal.Draft) ([]journal.Event, error) {
	switch drafts[0].Payload.Kind() {
	case journal.KindClosed:
		defer close(e.closed)
	case journal.KindReleased:
		select {
		case <-e.closed:
		case <-time.After(overtaken):
		}
	}
	return e.memory.Append(drafts...)
}

// brokenJournal fails to append from some moment on.
type brokenJournal struct {
	*memory
	fail func(drafts []journal.Draft) error
}

func (b *brokenJournal) Append(drafts ...journal.Draft) ([]journal.Event, error) {
	if err := b.fail(drafts); err != nil {
		return nil, err
	}
	return b.memory.Append(drafts...)
}

func TestAFullDiskDelaysOutcomesAndLosesNone(t *testing.T) {
	t.Parallel()
	refused := 0
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.build(func(c *jobexec.Config) {
		c.Recorder = &brokenJournal{f.journal, func(drafts []journal.Draft) error {
			if drafts[len(drafts)-1].Payload.Kind() == journal.KindDone && refused < 3 {
				refused++
				return journal.ErrFull
			}
			return nil
		}}
	})
	f.start()
	f.next().exit(0)
	f.wait("the outcome is journalled", ended(1))
	if refused != 3 || f.disk.released == 0 {
		t.Errorf("the disk was full %d times, and the reserve released %d times", refused, f.disk.released)
	}
}

func TestAJournalThatFailsEndsTheWorker(t *testing.T) {
	t.Parallel()
	failure := errors.New("fsync: input/output error")
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.build(func(c *jobexec.Config) {
		c.Recorder = &brokenJournal{f.journal, func(drafts []journal.Draft) error {
			if drafts[0].Job != 0 {
				return failure
			}
			return nil
		}}
	})
	f.start()
	if err := <-f.ended; !errors.Is(err, failure) {
		t.Errorf("Run: %v, want %v", err, failure)
	}
	f.ended <- nil
	f.none()
	if got := f.table.status(1); got != journal.RowWaiting {
		t.Errorf("row is %s, but its claim was never journalled", got)
	}
}

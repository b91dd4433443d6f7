package exec_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	jobexec "jobd/exec"
	"jobd/journal"
)

// ended is a row that has ended long ago.
func endedRow(id int64, target, status string) journal.Row {
	row := journal.Row{Job: id, Target: target, Status: status}
	if status == journal.RowDone {
		row.Finished, row.Result = 1_700_000_000, "fail"
	}
	return row
}

// setBack sets rows back and compares the answer.
func (f *fixture) setBack(wish jobexec.RetryWish, want jobexec.Answer[string]) {
	f.t.Helper()
	wish.By = "10.0.0.5:1"
	answer, err := f.worker.SetBack(f.t.Context(), wish)
	if want.Jobs == nil {
		want.Jobs = map[int64]string{}
	}
	if want.Errors == nil {
		want.Errors = map[int64]string{}
	}
	want.Requested = len(want.Jobs) > 0
	if diff := cmp.Diff(want, answer); err != nil || diff != "" {
		f.t.Fatalf("%v, answer (-want +got):\n%s", err, diff)
	}
}

func TestRowsThatHaveEndedAreSetBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(
		endedRow(1, "a", journal.RowDone), endedRow(2, "c", journal.RowIgnored), waiting(3, "c"), manual(4, "c"),
		journal.Row{Job: 5, Target: "c", Status: journal.RowRunning, Owner: "@other12345"}, endedRow(6, "c", journal.RowDone), endedRow(7, "c", journal.RowDone),
	), nil)
	told := make(chan []string, 9)
	f.build(func(c *jobexec.Config) {
		c.OnRetried = func(targets []string) { told <- targets }
	})
	f.start()
	f.setBack(jobexec.RetryWish{
		IDs: []int64{1, 2, 3, 4, 5, 6, 7, 7, 9}, Finished: map[int64]int64{6: 5, 7: 1_700_000_000}, To: map[int64]string{2: journal.RowManual},
	}, jobexec.Answer[string]{
		Jobs: map[int64]string{1: "waiting", 2: "manual", 7: "waiting"},
		Errors: map[int64]string{
			3: "status = waiting: only done or ignored rows are retried", 4: "status = manual: only done or ignored rows are retried",
			5: "status = running: only done or ignored rows are retried", 6: "it has run again meanwhile", 9: "job 9 not found",
		},
	})
	if diff := cmp.Diff([]string{"a", "c"}, <-told); diff != "" {
		t.Errorf("told of targets (-want +got):\n%s", diff)
	}
	want := journal.Retried{Target: "c", From: "ignored", To: "manual", By: "10.0.0.5:1"}
	if diff := cmp.Diff(journal.Payload(want), f.events(2)[0].Payload); diff != "" {
		t.Errorf("journalled (-want +got):\n%s", diff)
	}
	for _, id := range []int64{3, 4, 5, 6} {
		if len(f.events(id)) > 0 {
			t.Errorf("job %d: %v", id, f.events(id))
		}
	}
}

// A row that was set back is run at once, though nothing polls.
func TestWhatIsSetBackIsRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(endedRow(1, "a", journal.RowDone)), nil)
	f.start()
	<-f.table.selected // the poll of the start has found nothing
	f.setBack(jobexec.RetryWish{IDs: []int64{1}}, jobexec.Answer[string]{Jobs: map[int64]string{1: "waiting"}})
	f.next().exit(0)
	f.wait("the job is done", ended(1))
	if got := words(f.story(1)); got != "retried accepted running started done" {
		t.Errorf("story %q", got)
	}
}

// What is not known to be committed the row tells.
func TestTheRowTellsWhetherARetryWasCommitted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		committed, undone, locked bool
	}{
		"it was":                     {committed: true},
		"it was not":                 {},
		"it was undone":              {undone: true},
		"it was, and it is locked":   {committed: true, locked: true},
		"it was not, it is locked":   {locked: true},
		"it was refused by the rows": {undone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, newTable(endedRow(1, "c", journal.RowDone)), nil)
			f.start()
			<-f.table.selected
			f.table.change(func() {
				f.table.commit = func(apply func()) error {
					f.table.commit = nil
					if test.undone {
						return undone{errors.New("deadlock")}
					}
					if test.committed {
						apply()
					}
					if f.table.locked[1] = test.locked; test.locked {
						time.AfterFunc(100*time.Millisecond, func() { f.table.change(func() { clear(f.table.locked) }) })
					}
					return errLink
				}
			})
			if test.undone { // it is tried again
				f.setBack(jobexec.RetryWish{IDs: []int64{1}}, jobexec.Answer[string]{Jobs: map[int64]string{1: "waiting"}})
				if got := words(f.story(1)); got != "retried conflict retried" {
					t.Errorf("story %q", got)
				}
				return
			}
			want, story := jobexec.Answer[string]{Jobs: map[int64]string{1: "waiting"}}, "retried"
			if !test.committed {
				want = jobexec.Answer[string]{Errors: map[int64]string{1: "job 1 was not set back: the update was not committed: the row is done"}}
				story = "retried conflict"
			}
			f.setBack(jobexec.RetryWish{IDs: []int64{1}}, want)
			if got := words(f.story(1)); got != story {
				t.Errorf("story %q, want %q", got, story)
			}
			if n := f.worker.Status().Doubted; n != 0 {
				t.Errorf("%d are in doubt", n)
			}
		})
	}
}

// A row that ended in this second is set back in the next one, so that no two ends of a job look
// alike.
func TestARowThatHasOnlyJustEndedIsSetBackASecondLater(t *testing.T) {
	t.Parallel()
	row := endedRow(1, "c", journal.RowDone)
	row.Finished = time.Now().Unix() + 1
	f := newFixture(t, newTable(row), nil)
	f.start()
	f.setBack(jobexec.RetryWish{IDs: []int64{1}}, jobexec.Answer[string]{Jobs: map[int64]string{1: "waiting"}})
	if at := f.events(1)[0].Time.Unix(); at <= row.Finished {
		t.Errorf("set back at %d, it ended at %d", at, row.Finished)
	}
}

// A full disk refuses a retry, and nothing was done.
func TestAFullDiskRefusesARetry(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(endedRow(1, "c", journal.RowDone)), nil)
	f.start()
	f.disk.set(errors.New("the disk is full"))
	answer, err := f.worker.SetBack(t.Context(), jobexec.RetryWish{IDs: []int64{1}})
	if err != nil || len(answer.Jobs) > 0 || len(answer.Errors) != 1 || f.table.status(1) != journal.RowDone || len(f.events(1)) > 0 {
		t.Errorf("%v, %v", answer, err)
	}
}

// What rows were before, the journal tells: that takes nothing of the time for the table.
func TestTheTimeForTheTableIsNotSpentOnTheJournal(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(endedRow(1, "a", journal.RowDone), endedRow(2, "a", journal.RowIgnored)), nil)
	f.build(func(c *jobexec.Config) {
		c.WasManual = func(ctx context.Context, job int64) bool {
			if _, limited := ctx.Deadline(); limited {
				t.Error("looking into the journal is limited by the table's time")
			}
			return job == 2
		}
		c.OnRetried = func([]string) {}
	})
	f.start()
	f.setBack(jobexec.RetryWish{IDs: []int64{1, 2}}, jobexec.Answer[string]{Jobs: map[int64]string{1: "waiting", 2: "manual"}})
}

// limited is a worker whose target a has a rate.
func limited(t *testing.T, r jobexec.Rate, rows int64) *fixture {
	table := newTable()
	for id := range rows {
		table.rows[id+1] = waiting(id+1, "a")
	}
	f := newFixture(t, table, func(c *jobexec.Config) {
		c.Targets = map[string]int{"a": 100}
		c.Terms = map[string]jobexec.Terms{"a": {Rate: r}}
	})
	f.start()
	return f
}

func TestARateHoldsBackClaims(t *testing.T) {
	t.Parallel()
	f := limited(t, jobexec.Rate{Starts: 1, Per: time.Hour}, 5)
	f.next().exit(0)
	f.until("the rate is used up", func(s jobexec.Status) bool {
		a := s.Targets["a"]
		return a.Length == 0 && strings.Contains(a.Why, "its rate of 1/h is used up; the next start may be in ")
	})
	_ = f.worker.Poll(nil)
	f.none()
	for id := int64(2); id <= 5; id++ {
		if got := f.table.status(id); got != journal.RowWaiting {
			t.Errorf("job %d is %s", id, got)
		}
	}
}

// Nobody polls: the worker comes back by itself when there are starts in hand again, also beside rows that
// are due much later, for which it looks at clocks only.
func TestARateBesideRowsThatAreDueLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rows, each = 20, 500 * time.Millisecond
		table := newTable(delayed(100, "b", journal.Plan{RunAt: in(time.Hour)}))
		for id := range int64(rows) {
			table.rows[id+1] = waiting(id+1, "a")
		}
		begun := time.Now()
		_, r, _ := newMemory(t, table, func(c *jobexec.Config) {
			c.Terms = map[string]jobexec.Terms{"a": {Rate: jobexec.Rate{Starts: 2, Per: time.Second}}}
		})
		for range rows {
			p := <-r.started
			p.exit(0)
		}
		if took := time.Since(begun); took > rows*each+time.Second {
			t.Errorf("%d starts took %s", rows, took)
		}
	})
}

// A job that is run by hand is not held up, and counts.
func TestAManualJobIsNotHeldUpByARate(t *testing.T) {
	t.Parallel()
	table := newTable(waiting(1, "a"), manual(2, "a"))
	f := newFixture(t, table, func(c *jobexec.Config) {
		c.Terms = map[string]jobexec.Terms{"a": {Rate: jobexec.Rate{Starts: 1, Per: time.Hour}}}
	})
	f.start()
	f.next().exit(0)
	go func() { _, _ = f.worker.RunManual(t.Context(), []int64{2}, "me") }()
	if p := f.next(); p.spec.Job != 2 {
		t.Errorf("job %d was started", p.spec.Job)
	}
}

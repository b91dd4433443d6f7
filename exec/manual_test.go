package exec_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

func TestManualJobsThatCannotBeRun(t *testing.T) {
	t.Parallel()
	row := func(id int64, status string) journal.Row {
		return journal.Row{Job: id, Target: "a", Status: status}
	}
	tab := newTable(
		row(1, journal.RowWaiting), row(2, journal.RowAccepted), row(3, journal.RowRunning),
		row(4, journal.RowDone), row(5, journal.RowIgnored), manual(6, "elsewhere"), manual(8, "b"),
	)
	f := newFixture(t, tab, func(c *jobexec.Config) { c.Targets = map[string]int{"b": 1} })
	f.start()
	go func() { (<-f.runner.started).exit(0) }()
	answer := must.Get(f.worker.RunManual(t.Context(), []int64{8, 1, 2, 3, 4, 5, 6, 7, 8}, "me"))(t)
	want := map[int64]string{
		1: "status = waiting != manual", 2: "status = accepted != manual", 3: "status = running != manual",
		4: "status = done != manual", 5: "status = ignored != manual",
		6: "target 'elsewhere' not found (job id=6)", 7: "job 7 not found",
	}
	if diff := cmp.Diff(want, answer.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if answer.Jobs[8].Result != "ok" {
		t.Errorf("job 8: %+v", answer.Jobs[8])
	}
	for id, status := range map[int64]string{
		1: journal.RowWaiting, 2: journal.RowAccepted, 3: journal.RowRunning, 4: journal.RowDone, 5: journal.RowIgnored, 6: journal.RowManual,
	} {
		if got := tab.status(id); got != status {
			t.Errorf("row %d is %s afterwards, want %s: what is not run stays as it was", id, got, status)
		}
		if got := words(f.story(id)); got != "" {
			t.Errorf("the journal says of job %d: %s", id, got)
		}
	}
}

func TestOneClientWaitsForAJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "a"), manual(2, "a")), nil)
	f.start()
	gone, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := f.worker.RunManual(gone, []int64{1}, "me")
		first <- err
	}()
	p := f.next()
	_, err := f.worker.RunManual(t.Context(), []int64{2, 1}, "me")
	if want := "another client is already waiting for job 1"; err == nil || err.Error() != want {
		t.Errorf("a second client: %v, want %q", err, want)
	}
	if got := f.table.status(2); got != journal.RowManual {
		t.Errorf("a request that is refused has changed job 2: %s", got)
	}
	if got := f.worker.Status().Clients; got != 1 {
		t.Errorf("%d clients wait, want 1", got)
	}
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the client that left: %v", err)
	}
	p.exit(0)
	f.wait("the job goes on without its client", ended(1))
	if got := f.worker.Status().Clients; got != 0 {
		t.Errorf("%d clients wait, want none", got)
	}
}

func TestAManualClaimThatWasNotWonIsToldToTheClient(t *testing.T) {
	t.Parallel()
	tab := newTable(manual(1, "a"))
	tab.commit = func(func()) error { return errors.New("link lost before the commit") }
	f := newFixture(t, tab, nil)
	f.start()
	answer := must.Get(f.worker.RunManual(t.Context(), []int64{1}, "me"))(t)
	if want := "job 1 was not run: the claim was not won"; answer.Errors[1] != want {
		t.Errorf("told %q, want %q", answer.Errors[1], want)
	}
	f.none()
}

// Regression: clients with locked rows held connections until all were gone, and were told that the
// database could not be reached.
func TestAClientIsToldThatItsRowIsLocked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "a"), manual(2, "a"), manual(3, "a"), waiting(4, "b")), nil)
	f.table.locked[1], f.table.locked[2] = true, true
	f.runner.instant = true
	f.start()
	began := time.Now()
	answers := f.client(1, 2, 3, 9)
	f.until("the row that nobody holds is run", func(jobexec.Status) bool { return count(f.story(3), journal.KindDone) == 1 })
	select {
	case <-answers:
		t.Fatal("it took as long as the client waits for the locks")
	default:
	}
	f.reach(map[int64]string{4: journal.RowDone}) // no claim waits for the locks
	f.table.change(func() { delete(f.table.locked, 2) })
	answer := <-answers
	want := map[int64]string{1: "job 1 was not run: the row is locked by somebody else", 9: "job 9 not found"}
	if diff := cmp.Diff(want, answer.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if len(answer.Jobs) != 2 {
		t.Errorf("run: %v", answer.Jobs)
	}
	if took := time.Since(began); took < 4*time.Second || took > 20*time.Second {
		t.Errorf("the client was told after %s, want about 5 s, and some for a busy machine", took)
	}
}

// What the table refuses is told in its words, and the others are run.
func TestAClientIsToldWhatTheTableRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "a"), manual(2, "a")), nil)
	f.table.refused[1] = "CHECK weight is violated"
	f.runner.instant = true
	f.start()
	answer, err := f.worker.RunManual(t.Context(), []int64{1, 2}, "me")
	want := map[int64]string{1: "job 1 was not run: the table refuses it: CHECK weight is violated"}
	if diff := cmp.Diff(want, answer.Errors); err != nil || diff != "" {
		t.Errorf("%v, errors (-want +got):\n%s", err, diff)
	}
	if answer.Jobs[2].Result != "ok" {
		t.Errorf("job 2: %+v", answer)
	}
	if got := words(f.story(1)); got != "accepted running released" && got != "accepted released" {
		t.Errorf("story %q", got)
	}
}

// An error that says nothing of the whole table is not told as an outage, and concerns the row that
// it is about.
func TestAClientIsToldTheTruthAboutAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "a"), manual(2, "a")), nil)
	f.table.commit = func(apply func()) error {
		before := f.table.rows[1]
		apply()
		if f.table.rows[1] != before {
			f.table.rows[1] = before
			if f.table.rows[2].Status != journal.RowManual {
				f.table.rows[2] = manual(2, "a")
			}
			return undone{errors.New("1146, raised by a trigger")}
		}
		return nil
	}
	f.runner.instant = true
	f.start()
	answer, err := f.worker.RunManual(t.Context(), []int64{1, 2}, "me")
	want := map[int64]string{1: "job 1 was not run: the table refuses it: 1146, raised by a trigger"}
	if diff := cmp.Diff(want, answer.Errors); err != nil || diff != "" {
		t.Errorf("%v, errors (-want +got):\n%s", err, diff)
	}
	if answer.Jobs[2].Result != "ok" {
		t.Errorf("job 2: %+v", answer)
	}
}

// Regression: a row `Reports` was claimed for target reports, but run-manual marked it as ignored.
func TestAManualRowRunsUnderTheNameThatTheTableTakesItFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "A")), nil)
	f.runner.instant = true
	f.start()
	answer, err := f.worker.RunManual(t.Context(), []int64{1}, "me")
	if err != nil || answer.Jobs[1].Result != "ok" {
		t.Fatalf("told %+v, %v", answer, err)
	}
	if claim := f.events(1)[0].Payload.(journal.Accepted); claim.Target != "a" || !claim.Manual {
		t.Errorf("claimed as %+v", claim)
	}
}

// What a client is told when the worker stops while a row is locked.
func TestAClientWithALockedRowDoesNotHoldUpAStop(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "a")), nil)
	f.table.locked[1] = true
	f.start()
	answers := f.client(1)
	f.until("it waits", func(s jobexec.Status) bool { return s.Clients == 1 })
	f.stop()
	<-answers
	f.gone()
}

// slowTable takes some time for each claim by hand.
type slowTable struct {
	*table
	takes time.Duration
}

func (s slowTable) ClaimManual(ctx context.Context, ids []int64, targets []string, decide func([]journal.Row) ([]journal.Event, error)) (locked []int64, _ error) {
	select {
	case <-time.After(s.takes):
		return s.table.ClaimManual(ctx, ids, targets, decide)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Regression: a client named more jobs than were claimed in ten seconds, and those behind were refused as if
// the database did not answer.
func TestManyJobsAreClaimedForAsLongAsClaimsSucceed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const last = 10_001 // of the third claim
		tab := newTable(manual(last, "a"))
		_, r, w := newMemory(t, tab, func(c *jobexec.Config) { c.Table = slowTable{tab, 6 * time.Second} })
		r.instant = true
		ids := make([]int64, last)
		for i := range ids {
			ids[i] = int64(i + 1)
		}
		answer := must.Get(w.RunManual(t.Context(), ids, "somebody"))(t)
		if len(answer.Jobs) != 1 {
			t.Errorf("not run: %s", answer.Errors[last])
		}
	})
}

package exec_test

import (
	"context"
	"errors"
	"testing"

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

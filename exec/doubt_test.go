package exec_test

import (
	"errors"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
)

// Regression: one locked row of a claim in doubt held up all claims at a start.
func TestALockedRowInDoubtHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	accepted := journal.Accepted{Target: "a", Token: "@abcdefghi"}
	tab := newTable(journal.Row{Job: 1, Target: "a", Status: journal.RowAccepted, Owner: accepted.Token}, waiting(2, "a"))
	tab.locked[1] = true
	f := newFixture(t, tab, nil)
	left(t, f.journal, accepted)
	f.start()
	if p := f.next(); p.spec.Job != 2 {
		t.Fatalf("job %d was started", p.spec.Job)
	}
	if got := f.worker.Status().Doubted; got != 1 {
		t.Errorf("%d claims in doubt, want 1", got)
	}
	tab.change(func() { clear(tab.locked) })
	if p := f.next(); p.spec.Job != 1 {
		t.Fatalf("job %d was started", p.spec.Job)
	}
}

// A question about rows in doubt that fails for a reason of their own is asked for each of them,
// and holds up nothing else.
func TestAQuestionAboutDoubtsThatFailsHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	accepted := journal.Accepted{Target: "a", Token: "@abcdefghi"}
	tab := newTable(journal.Row{Job: 1, Target: "a", Status: journal.RowAccepted, Owner: accepted.Token}, waiting(2, "a"))
	tab.rowsErr = errors.New("a value that nobody can read")
	f := newFixture(t, tab, nil)
	left(t, f.journal, accepted)
	f.start()
	if p := f.next(); p.spec.Job != 2 {
		t.Fatalf("job %d was started", p.spec.Job)
	}
	tab.change(func() { tab.rowsErr = nil })
	if p := f.next(); p.spec.Job != 1 {
		t.Fatalf("job %d was started", p.spec.Job)
	}
}

// A claim in doubt of which the mirror journalled a conflict meanwhile can't be released any more,
// and is forgotten.
func TestADoubtThatTheJournalHasEndedIsForgotten(t *testing.T) {
	t.Parallel()
	accepted := journal.Accepted{Target: "a", Token: "@abcdefghi"}
	f := newFixture(t, newTable(waiting(2, "a")), nil)
	left(t, f.journal, accepted)
	f.table.locked[1] = true
	f.start()
	f.next().exit(0)
	left(t, f.journal, journal.Conflict{Token: accepted.Token})
	f.table.change(func() { clear(f.table.locked) })
	f.until("nothing is in doubt", func(s jobexec.Status) bool { return s.Doubted == 0 })
	if got := words(f.story(1)); got != "accepted conflict" {
		t.Errorf("story %q", got)
	}
}

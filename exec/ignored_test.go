package exec_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/journal"
)

const notFound = "target 'c' not found (job id=1)"

// Regression: `ignored` was journalled, the table refused its update, and the journal said ignored
// for ever of a row that reads manual.
func TestAnIgnoringThatTheTableRefusesIsTakenBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "c"), manual(2, "a")), nil)
	f.table.refused[1] = "a trigger"
	f.runner.instant = true
	f.start()
	answer, err := f.worker.RunManual(t.Context(), []int64{1, 2}, "me")
	want := map[int64]string{1: notFound + "; the row could not be marked as ignored: the table refuses it: a trigger"}
	if diff := cmp.Diff(want, answer.Errors); err != nil || diff != "" {
		t.Errorf("%v, errors (-want +got):\n%s", err, diff)
	}
	if answer.Jobs[2].Result != "ok" {
		t.Errorf("the other job: %+v", answer)
	}
	f.takenBack("a trigger")
	if got := f.table.status(1); got != journal.RowManual {
		t.Errorf("the row is %s", got)
	}
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
}

// Where it is not known whether the update was committed, the row tells.
func TestTheRowTellsWhetherAnIgnoringWasCommitted(t *testing.T) {
	t.Parallel()
	const reason = "the update was not committed: the row is manual"
	for name, test := range map[string]struct {
		committed, locked bool
	}{
		"it was":                        {committed: true},
		"it was not":                    {},
		"it was, and the row is locked": {committed: true, locked: true},
		"it was not, the row is locked": {locked: true},
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
			answer, err := f.worker.RunManual(t.Context(), []int64{1}, "me")
			want := map[int64]string{1: notFound + "; it is not known yet whether the row was marked as ignored"}
			if diff := cmp.Diff(want, answer.Errors); err != nil || diff != "" {
				t.Errorf("%v, errors (-want +got):\n%s", err, diff)
			}
			if test.locked {
				if n := f.worker.Status().Doubted; n != 1 {
					t.Errorf("%d decisions in doubt, want 1", n)
				}
				f.table.change(func() { clear(f.table.locked) })
			}
			f.until("nothing is in doubt", func(s jobexec.Status) bool { return s.Doubted == 0 })
			if test.committed {
				if got := words(f.story(1)); got != "ignored" {
					t.Errorf("story %q", got)
				}
				return
			}
			f.takenBack(reason)
		})
	}
}

// A row is locked for a moment where a claim is undone; the client is told what becomes of the next
// try.
func TestAnIgnoringThatWasUndoneIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "c")), nil)
	f.table.commit = failing(1, undone{errors.New("deadlock")})
	f.start()
	answer, err := f.worker.RunManual(t.Context(), []int64{1}, "me")
	if diff := cmp.Diff(map[int64]string{1: notFound}, answer.Errors); err != nil || diff != "" {
		t.Errorf("%v, errors (-want +got):\n%s", err, diff)
	}
	if got := words(f.story(1)); got != "ignored conflict ignored" {
		t.Errorf("story %q", got)
	}
	if got := f.table.status(1); got != journal.RowIgnored {
		t.Errorf("the row is %s", got)
	}
}

// A row that waits again while it is in doubt whether it was ignored is claimed when that is known.
func TestARowInDoubtIsClaimedLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "c")), nil)
	f.start()
	<-f.table.selected
	f.table.change(func() {
		f.table.commit = func(func()) error {
			f.table.commit = nil
			f.table.rowsErr = errors.New("a value that nobody can read")
			return errLink
		}
	})
	if _, err := f.worker.RunManual(t.Context(), []int64{1}, "me"); err != nil {
		t.Fatal(err)
	}
	f.table.insert(waiting(1, "b")) // somebody means another target by now
	f.worker.PollAll()
	<-f.table.selected
	f.table.change(func() { f.table.rowsErr = nil })
	f.next().exit(0)
	f.wait("the job is done", ended(1))
	if got := words(f.story(1)); got != "ignored conflict accepted running started done" {
		t.Errorf("story %q", got)
	}
}

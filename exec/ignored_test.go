package exec_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/journal"
)

// Where the table refuses to mark a row as ignored, or the row is locked while it is not known whether
// it was, the journal ends up saying what the row does.
func TestTheRowTellsWhetherAnIgnoringWasCommitted(t *testing.T) {
	t.Parallel()
	for name, committed := range map[string]bool{"it was, and the row is locked": true, "it was not, the row is locked": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, newTable(manual(1, "c")), nil)
			f.start()
			<-f.table.selected
			f.table.change(func() {
				f.table.commit = func(apply func()) error {
					f.table.commit = nil
					if committed {
						apply()
					}
					f.table.locked[1] = true
					return errLink
				}
			})
			f.cancel(jobexec.CancelWish{IDs: []int64{1}, Rows: true})
			if n := f.worker.Status().Doubted; n != 1 {
				t.Errorf("%d decisions in doubt, want 1", n)
			}
			f.table.change(func() { clear(f.table.locked) })
			f.until("nothing is in doubt", func(s jobexec.Status) bool { return s.Doubted == 0 })
			if committed {
				f.tells(1, "ignored")
				return
			}
			f.takenBack("the update was not committed: the row is manual")
		})
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
	f.cancel(jobexec.CancelWish{IDs: []int64{1}, Rows: true})
	f.table.insert(waiting(1, "b")) // somebody means another target by now
	f.worker.PollAll()
	<-f.table.selected
	f.table.change(func() { f.table.rowsErr = nil })
	f.next().exit(0)
	f.wait("the job is done", ended(1))
	f.tells(1, "ignored conflict accepted running started done")
}

package exec_test

import (
	"errors"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
)

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
	want := journal.Ignored{Reason: "cancelled by 10.0.0.5", By: canceller}
	if events := f.events(1); len(events) != 1 || events[0].Payload != journal.Payload(want) {
		t.Errorf("the journal says %+v, want %+v", events, want)
	}
}

// Where it is not known whether the update was committed, that is told, and found out.
func TestACancelInDoubt(t *testing.T) {
	t.Parallel()
	for name, committed := range map[string]bool{"committed": true, "not committed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, newTable(manual(1, "a")), nil)
			f.start()
			<-f.table.selected
			f.table.change(func() {
				f.table.commit = func(apply func()) error {
					f.table.commit = nil
					if committed {
						apply()
					}
					return errLink
				}
			})
			f.told(jobexec.CancelWish{IDs: []int64{1}, Rows: true}, map[int64]string{
				1: "cancelled by 10.0.0.5; it is not known yet whether the row was marked as ignored",
			})
			f.until("nothing is in doubt", func(s jobexec.Status) bool { return s.Doubted == 0 })
			if committed {
				f.tells(1, "ignored")
			} else {
				f.tells(1, "ignored conflict")
			}
			if ignored := f.table.status(1) == journal.RowIgnored; ignored != committed {
				t.Errorf("the row is %s", f.table.status(1))
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
	f.takenBackAs(1, "ignored conflict")
}

func (f *fixture) takenBackAs(id int64, want string) {
	f.t.Helper()
	f.tells(id, want)
	if got := f.table.status(id); got != journal.RowManual {
		f.t.Errorf("row %d is %s", id, got)
	}
}

// With the database away, what the worker has is cancelled; of rows that nobody is known to have
// the reason is told.
func TestACancelWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b"), waiting(3, "c")), nil)
	f.start()
	f.next()
	f.claimed(2)
	f.mirror.mu.Lock()
	close(f.mirror.away)
	f.mirror.mu.Unlock()
	f.table.change(func() { f.table.commit = func(func()) error { return awayError{errors.New("link lost")} } })
	f.told(jobexec.CancelWish{IDs: []int64{1, 2, 3}, Rows: true}, map[int64]string{
		1: "signals of b", 2: "not run of b",
		3: "job 3 was not cancelled: nobody is known to have it, and the database could not be reached",
	})
}

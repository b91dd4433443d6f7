package rule

import (
	"fmt"
	"time"

	"jobd/journal"
	"jobd/store"
)

// CheckAll tells changes that no table can apply from the others: those are a mistake of the
// caller, not of the table.
func CheckAll(changes []store.Change) error {
	for _, change := range changes {
		if err := check(change); err != nil {
			return err
		}
	}
	return nil
}

func check(change store.Change) error {
	switch change.Status {
	case journal.RowRunning, journal.RowWaiting, journal.RowManual:
		return nil
	case journal.RowDone, journal.RowIgnored:
		if change.Done == nil {
			return fmt.Errorf("apply job %d: %s, but how is missing", change.Job, change.Status)
		}
		return nil
	default:
		return fmt.Errorf("apply job %d: status %q: allowed are running, done, ignored, waiting and manual", change.Job, change.Status)
	}
}

// Release tells whether the change gives its row back.
func Release(change store.Change) bool {
	return change.Status == journal.RowWaiting || change.Status == journal.RowManual
}

// seconds is a time as the table holds it: unix seconds, 0 for none.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// Found is a row as an update that did not match it left it.
type Found = store.Seen

// Judge tells what became of a change whose update matched no row; found is
// nil where there is none of that id.
//
// A release wants no more than that the row is not ours, and so it has been
// applied whatever is found: the claim never committed, or a former try did it.
//
// A running that finds its row done with the same start was applied, and what came after
// it too: a mirror that was cut off goes over its last steps again.
//
// One that is to be ignored and is, was ignored by a former try, or by somebody else to the same end.
//
// A row that the update should have met was changed back in between, or a trigger skips its
// updates: it is tried again.
//
// A row that was created after the claim is another job, which got an old id again from a server
// that had lost rows. However much it looks like the end of this one, nothing of this one is in it.
func Judge(change store.Change, found *Found) store.Outcome {
	if Release(change) {
		return store.Outcome{Fate: store.Applied}
	}
	if found == nil {
		return store.Outcome{Fate: store.Lost}
	}
	if guarded(change, found) {
		return store.Outcome{Fate: store.Held, Note: "the update met no row, though the row is as the worker left it"}
	}
	later := newer(change, found)
	if !later && change.Status == journal.RowIgnored {
		if found.Status == journal.RowIgnored {
			return store.Outcome{Fate: store.Applied}
		}
		return store.Outcome{Fate: store.Lost, Found: &found.Row}
	}
	if !later && found.Status == journal.RowDone && sameRun(change, found) {
		return store.Outcome{Fate: store.Applied}
	}
	if !later && change.Status == journal.RowDone && found.Status != journal.RowDone && found.Finished != 0 && found.Finished == seconds(change.Finish) {
		return store.Outcome{Fate: store.Applied} // and set back since: its time stays until the next end
	}
	return store.Outcome{Fate: store.Lost, Found: &found.Row, Newer: later}
}

// guarded tells whether a row is one that the change's update meets.
func guarded(change store.Change, found *Found) bool {
	return change.Token != "" && found.Owner == change.Token && (found.Status == journal.RowAccepted || found.Status == journal.RowRunning)
}

// newer tells that a row is a later job than the one that the change is about.
func newer(change store.Change, found *Found) bool {
	return !change.Accepted.IsZero() && found.Created > seconds(change.Accepted)
}

// sameRun tells whether a done row is the end of the very run that the change is about.
func sameRun(change store.Change, found *Found) bool {
	if change.Status == journal.RowRunning {
		return found.Started == seconds(change.Start)
	}
	return found.Finished == seconds(change.Finish) && found.Result == change.Done.Result
}

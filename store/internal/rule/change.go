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
		if change.Done.Again != nil {
			return fmt.Errorf("apply job %d: %s, but its end says that it comes back", change.Job, change.Status)
		}
		return nil
	case journal.RowDelayed:
		if change.Done != nil && change.Done.Again == nil {
			return fmt.Errorf("apply job %d: delayed, but until when is missing", change.Job)
		}
		return nil
	default:
		return fmt.Errorf("apply job %d: status %q: allowed are running, done, delayed, ignored, waiting and manual", change.Job, change.Status)
	}
}

// Release tells whether the change gives its row back.
func Release(change store.Change) bool {
	return change.Status == journal.RowWaiting || change.Status == journal.RowManual || change.Status == journal.RowDelayed && change.Done == nil
}

// isEnd tells whether the change is the end of a run, after which the row may come back.
func isEnd(change store.Change) bool {
	return change.Status == journal.RowDone || change.Status == journal.RowDelayed && change.Done != nil
}

// seconds is a time as the table holds it: unix seconds, 0 for none.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

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

// Alike tells whether two changes set the same in their rows, and are guarded by the same, for sure:
// those of most jobs that had nothing to say are and do. What Write or Unedited looks at is compared
// here, or both changes have none of it.
func Alike(a, b *store.Change) bool {
	return a.Status == b.Status && a.Token == b.Token && a.Attempts == b.Attempts &&
		samePlan(a, b) &&
		sameSecond(a.Start, b.Start) && sameSecond(a.Finish, b.Finish) &&
		(a.Done == b.Done || a.Done != nil && b.Done != nil && sameEnd(a.Done, b.Done))
}

// samePlan tells whether rows read alike when they are given back, and whether ends are guarded by the
// same schedule.
func samePlan(a, b *store.Change) bool {
	if a.Plan == nil || b.Plan == nil {
		return a.Plan == b.Plan
	}
	return *a.Plan == *b.Plan || isEnd(*a) && a.Plan.Schedule == b.Plan.Schedule && a.Plan.Zone == b.Plan.Zone
}

// sameSecond tells whether rows show two times alike.
func sameSecond(a, b time.Time) bool { return a.Unix() == b.Unix() }

// sameEnd tells whether rows show two ends alike, of jobs without output.
func sameEnd(a, b *journal.Done) bool {
	return a.Result == b.Result && sameCode(a.Code, b.Code) && a.Signal == b.Signal &&
		isSilent(a) && isSilent(b) && (a.Again == b.Again || a.Again != nil && b.Again != nil && *a.Again == *b.Again)
}

func sameCode(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

// isSilent tells whether a row shows no output of a job, and no note.
func isSilent(d *journal.Done) bool { return d.Stdout.Size == 0 && d.Stderr.Size == 0 && d.Note == "" }

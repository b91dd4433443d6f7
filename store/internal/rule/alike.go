package rule

import (
	"time"

	"jobd/journal"
	"jobd/store"
)

// Alike tells whether two changes set the same in their rows, and are guarded by the same, for sure:
// those of most jobs that had nothing to say are and do. What Write or Unedited looks at is compared
// here, or both changes have none of it.
func Alike(a, b *store.Change) bool {
	return a.Status == b.Status && a.Token == b.Token && a.Attempts == b.Attempts &&
		a.Plan == nil && b.Plan == nil &&
		sameSecond(a.Start, b.Start) && sameSecond(a.Finish, b.Finish) &&
		(a.Done == b.Done || a.Done != nil && b.Done != nil && sameEnd(a.Done, b.Done))
}

// sameSecond tells whether rows show two times alike.
func sameSecond(a, b time.Time) bool { return a.Unix() == b.Unix() }

// sameEnd tells whether rows show two ends alike, of jobs without output that do not come back.
func sameEnd(a, b *journal.Done) bool {
	return a.Result == b.Result && sameCode(a.Code, b.Code) && a.Signal == b.Signal &&
		isSilent(a) && isSilent(b) && a.Again == nil && b.Again == nil
}

func sameCode(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

// isSilent tells whether a row shows no output of a job, and no note.
func isSilent(d *journal.Done) bool { return d.Stdout.Size == 0 && d.Stderr.Size == 0 && d.Note == "" }

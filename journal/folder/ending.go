package folder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"jobd/journal"
	"jobd/journal/segment"
)

// Details of damage to a journal's end, which are the same words wherever it is met.
const (
	DetailCut        = "events up to %d were acknowledged, the journal ends at %d"
	DetailNoHead     = "the head file is missing, so nobody can tell whether the newest events are"
	DetailAllSealed  = "the newest segment is missing: all that are there are sealed"
	DetailHeadDiffer = "it is not the event that was acknowledged under this number"
)

// Acknowledged is what the head file says, to be read before the events: what is appended while
// they are read must not look missing. damage says that it is not readable, which matters at the
// end only.
func (f *Folder) Acknowledged() (head Acknowledgement, damage, err error) {
	head, err = ReadHead(f.Dir)
	if segment.IsDamage(err) {
		return Acknowledgement{Found: true}, err, nil
	}
	return head, nil, err
}

// Ending reports whether a history that was read up to before end (0: all of it) reaches what is
// known of its end from elsewhere: the head file, and that a folder which a worker has used has a
// newest database. What ends earlier does not depend on it.
func (f *Folder) Ending(ctx context.Context, head Acknowledgement, end uint64) error {
	newest, err := f.Newest(ctx)
	if err != nil || end > 0 && end <= newest.Seq {
		return err
	}
	return f.EndsAt(head, newest)
}

// EndsAt is ending of a history whose newest event is known.
func (f *Folder) EndsAt(head Acknowledgement, newest journal.Anchor) error {
	if head.Seq > newest.Seq {
		return &journal.DamagedError{Seq: newest.Seq + 1, Detail: fmt.Sprintf(DetailCut, head.Seq, newest.Seq)}
	}
	if head.Seq == newest.Seq && head.Seq > 0 && head.Hash != newest.Hash {
		return &journal.DamagedError{Seq: newest.Seq, Detail: DetailHeadDiffer}
	}
	database, err := f.NewestDatabase()
	switch {
	case err != nil:
		return err
	case database == "" && (head.Found || UsedByWorker(f.Dir)):
		return &journal.DamagedError{Seq: newest.Seq + 1, Detail: DetailAllSealed}
	case database == "" || head.Found || newest.Seq == 0 || f.writer:
		return nil
	}
	if head, err = ReadHead(f.Dir); err == nil && !head.Found { // a worker may have made it, and events, since it was looked for
		err = &journal.DamagedError{Detail: DetailNoHead}
	}
	return err
}

// UsedByWorker reports whether a folder is one that a worker writes to, and no archive, which holds
// sealed segments only.
func UsedByWorker(dir string) bool {
	for _, name := range []string{LockFile, ClockFile, WaypointFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

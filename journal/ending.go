package journal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Details of damage to a journal's end, which are the same words wherever it is met.
const (
	detailCut        = "events up to %d were acknowledged, the journal ends at %d"
	detailNoHead     = "the head file is missing, so nobody can tell whether the newest events are"
	detailAllSealed  = "the newest segment is missing: all that are there are sealed"
	detailHeadDiffer = "it is not the event that was acknowledged under this number"
)

// acknowledged is what the head file says, to be read before the events: what is appended while they are read must not look missing.
// damage says that it is not readable, which matters at the end only.
func (r *Reader) acknowledged() (head acknowledgement, damage, err error) {
	head, err = readHead(r.dir)
	if isDamage(err) {
		return acknowledgement{found: true}, err, nil
	}
	return head, nil, err
}

// ending tells whether a history that was read up to before end (0: all of it) reaches what is known of its end from elsewhere: the
// head file, and that a folder which a worker has used has a newest database. What ends earlier does not depend on it.
func (r *Reader) ending(ctx context.Context, head acknowledgement, end uint64) error {
	newest, err := r.newest(ctx)
	if err != nil || end > 0 && end <= newest.Seq {
		return err
	}
	return r.endsAt(head, newest)
}

// endsAt is ending of a history whose newest event is known.
func (r *Reader) endsAt(head acknowledgement, newest Anchor) error {
	if head.seq > newest.Seq {
		return &DamagedError{Seq: newest.Seq + 1, Detail: fmt.Sprintf(detailCut, head.seq, newest.Seq)}
	}
	if head.seq == newest.Seq && head.seq > 0 && head.hash != newest.Hash {
		return &DamagedError{Seq: newest.Seq, Detail: detailHeadDiffer}
	}
	database, err := r.newestDatabase()
	switch {
	case err != nil:
		return err
	case database == "" && (head.found || usedByWorker(r.dir)):
		return &DamagedError{Seq: newest.Seq + 1, Detail: detailAllSealed}
	case database == "" || head.found || newest.Seq == 0 || r.writer:
		return nil
	}
	if head, err = readHead(r.dir); err == nil && !head.found { // a worker may have made it, and events, since it was looked for
		err = &DamagedError{Detail: detailNoHead}
	}
	return err
}

// usedByWorker tells whether a folder is one that a worker writes to, and no archive, which holds sealed segments only.
func usedByWorker(dir string) bool {
	for _, name := range []string{lockFile, clockFile, waypointFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

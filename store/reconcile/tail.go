package reconcile

import (
	"context"

	"jobd/journal"
)

// tail is what was appended to the journal since a comparison began. Of the jobs that are not in it
// the journal is known as it was read then, and the mirror has tried to show it, so that many can
// be judged, and brought back, together. The few that are in it are looked at one by one.
type tail struct {
	journal Journal
	from    uint64         // the newest event when the comparison began
	read    uint64         // up to which jobs is complete
	jobs    map[int64]bool // that have got events since
}

// readOn reads what was appended meanwhile.
func (t *tail) readOn(ctx context.Context) error {
	if t == nil {
		return nil
	}
	for e, err := range t.journal.Events(ctx, journal.Filter{After: t.read}) {
		if err != nil {
			return err
		}
		t.jobs[e.Job], t.read = true, e.Seq
	}
	return nil
}

// has tells whether a job has got events since the comparison began, as far as the tail was read.
func (t *tail) has(job int64) bool { return t != nil && t.jobs[job] }

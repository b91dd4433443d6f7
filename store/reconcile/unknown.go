package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"jobd/journal"
)

// Unknown is rows that wait and of which the journal can't tell whether they have run.
//
// A restored table shows rows waiting that ran since the backup was made. Those that the journal
// knows are brought back. Of the others it can say that they have not run only from where its
// history begins: what was before, retention has removed, or it is lost with a former journal. A
// row that was created before that, waits, and is not in the history may have run, and would be run
// again; so nothing is reapplied before somebody says that this is known.
type Unknown struct {
	Name    string    // the worker whose journal it is
	Begins  time.Time // when the history begins; zero: it goes back far enough
	Removed bool      // retention has removed earlier events
	Rows    []int64   // by id
}

// UnknownError says that rows wait of which nobody can tell whether they have run.
type UnknownError struct{ Unknown }

// Error implements error.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("%d waiting rows are older than the history of %s (%s), and whether they have run is unknown; nothing was changed",
		len(e.Rows), e.Name, e.Begins.UTC().Format(time.RFC3339))
}

// unknownPage is how many rows are asked for in one go.
const unknownPage = 10_000

// Unknown finds the rows that wait and of which the journal can't tell whether they have run.
func (r *Reapply) Unknown(ctx context.Context) (Unknown, error) {
	p, err := r.begin(ctx)
	if err != nil {
		return Unknown{}, err
	}
	return p.unknown(ctx)
}

// refuseUnknown fails where rows are unknown. Of a lost worker's journal nothing is asked: the
// worker's own was.
func (p *reapplying) refuseUnknown(ctx context.Context) error {
	if p.tail == nil {
		return nil
	}
	unknown, err := p.unknown(ctx)
	if err != nil || len(unknown.Rows) == 0 {
		return err
	}
	return &UnknownError{unknown}
}

func (p *reapplying) unknown(ctx context.Context) (Unknown, error) {
	unknown := Unknown{Name: p.event.Journal}
	if unknown.Name == "" {
		unknown.Name = p.wish.Worker
	}
	candidates := make(map[int64]bool)
	for _, id := range p.wish.Among {
		candidates[id] = true
	}
	if p.wish.Among == nil {
		begins, removed, err := beginning(ctx, p.Journal)
		if err != nil || !p.wish.Since.IsZero() && !begins.After(p.wish.Since) {
			return unknown, err
		}
		unknown.Begins, unknown.Removed = begins, removed
		if err := p.addWaiting(ctx, begins, candidates); err != nil {
			return unknown, err
		}
	}
	if err := p.clear(ctx, candidates); err != nil {
		return unknown, err
	}
	unknown.Rows = slices.Sorted(maps.Keys(candidates))
	return unknown, nil
}

// addWaiting adds the rows that wait and were created before a time.
func (p *reapplying) addWaiting(ctx context.Context, before time.Time, into map[int64]bool) error {
	for after := int64(0); ; {
		ids, err := p.Table.Unclaimed(ctx, p.wish.Targets, before.Unix(), after, unknownPage)
		if err != nil {
			return tableFailed(err)
		}
		for _, id := range ids {
			into[id], after = true, id
		}
		if len(ids) < unknownPage {
			return nil
		}
	}
}

// clear takes the rows away of which the journal knows. How a job ended that a lost worker had
// started, its journal does not know.
func (p *reapplying) clear(ctx context.Context, candidates map[int64]bool) error {
	if len(candidates) == 0 {
		return nil
	}
	for job, err := range p.Journal.Jobs(ctx, time.Time{}) {
		if err != nil {
			return err
		}
		started := job.Status == journal.StatusStarting || job.Status == journal.StatusRunning
		if p.tail != nil || !started {
			delete(candidates, job.ID)
		}
	}
	return nil
}

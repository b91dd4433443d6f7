package main

import (
	"context"
	"fmt"

	"jobd/cmd/internal/history"
	"jobd/journal"
)

// mostRetried is how many retried jobs a reapply takes into account: each worker is told of them.
const mostRetried = 20_000

// retried gathers the jobs that any worker has set back: which end that was, by the row's
// time_finished. A worker that knows that end, or an earlier one, does not know that it is over where
// another one has set the row back, and the table is from before both.
func (p *reapply) retried(ctx context.Context) (map[int64]int64, error) {
	if len(p.journals.remotes) < 2 {
		return nil, nil
	}
	ended := map[int64]int64{}
	q := history.Query{Kinds: []journal.Kind{journal.KindRetried, journal.KindConflict}, Since: p.query.Since}
	for e, err := range p.journals.events(ctx, q) {
		if err != nil {
			return nil, err
		}
		switch payload := e.item.Payload.(type) {
		case journal.Retried:
			ended[e.item.Job] = payload.Finished
		case journal.Conflict:
			if payload.Wanted == journal.WantedRetried {
				delete(ended, e.item.Job)
			}
		}
		if len(ended) > mostRetried {
			return nil, fmt.Errorf("more than %d jobs were retried, which is more than can be taken into account: narrow it with --since; nothing was changed", mostRetried)
		}
	}
	return ended, nil
}

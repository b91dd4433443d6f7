package service

import (
	"context"
	"slices"
	"time"

	"jobd/journal"
	"jobd/net/api"
	"jobd/store"
)

// heldFor is how long a row must be held before that is told. A claim of another worker's holds its
// rows for some milliseconds, and so does another client's question.
const heldFor = 200 * time.Millisecond

// probe asks the server what no look without locks can tell. The rows that wait are locked for the
// moment that it takes to read them, and so is nothing else. A claim that comes in that moment
// passes them by. Where it comes back short of what it wanted, its worker finds by a look without
// locks that rows still wait, and claims again after 50 ms; where it does not, the rows are claimed
// as soon as there is room, as they would have been. A row under way is not locked: the mirror's
// update of it would find it held.
func (x *explanation) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var wait []int64
	for id, row := range x.rows {
		if row.Status == journal.RowWaiting {
			wait = append(wait, id)
		}
	}
	held, err := x.held(ctx, wait)
	holders := make(map[string]string)
	x.each(func(id int64, job *api.ExplainedJob) {
		switch row := x.rows[id]; {
		case slices.Contains(wait, id):
			job.Probe = &api.JobProbe{Held: slices.Contains(held, id), Error: text(err)}
		case row != nil && row.UnderWay() && markOf(row.Owner) != "":
			job.Probe = x.holder(ctx, holders, markOf(row.Owner))
		}
	})
}

// held tells which rows somebody holds now, and still after a moment.
func (x *explanation) held(ctx context.Context, ids []int64) (held []int64, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if _, held, err = x.Table.Rows(ctx, ids); err != nil || len(held) == 0 {
		return nil, err
	}
	select {
	case <-time.After(heldFor):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	_, held, err = x.Table.Rows(ctx, held)
	return held, err
}

// holder tells who has a mark.
func (x *explanation) holder(ctx context.Context, known map[string]string, mark string) *api.JobProbe {
	holder, asked := known[mark]
	if !asked {
		var err error
		if holder, err = x.Table.Holder(ctx, "mark:"+mark); err != nil {
			return &api.JobProbe{Error: err.Error()}
		}
		known[mark] = holder
	}
	return &api.JobProbe{Marked: true, Holder: holder}
}

// markOf is the mark of the worker that a claim's token tells of; "" where it is no token.
func markOf(owner string) string {
	const mark = 4
	if len(owner) != store.TokenLength || owner[0] != '@' {
		return ""
	}
	return owner[1 : 1+mark]
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

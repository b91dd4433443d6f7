package main

import (
	"context"
	"path/filepath"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/journal/replay"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store"
	"jobd/store/reconcile"
)

func (h journalHandlers) reapply(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	var q history.ReapplyQuery
	if err := api.ReadQuery(request.Data, &q); err != nil {
		return nil, err
	}
	if q.Journal != "" && !filepath.IsAbs(q.Journal) {
		return nil, jobnet.Refusal("'journal' must be the absolute path of a folder on the worker's machine")
	}
	by := link.Caller(request.Fields()).String()
	return h.open(ctx, link, func(ctx context.Context, r *replay.Reader, yield func(any) error) error {
		wish := &reconcile.Reapply{
			Config: h.own(r), Logger: h.log, Worker: h.worker.Name, Targets: h.worker.TargetNames(),
			By: by, Since: q.Since, Folder: q.Journal, DryRun: q.DryRun, AcceptUnknown: q.AcceptUnknown, Among: q.Among,
			Retried: q.Retried,
			Note:    h.noteReapplied, Visit: func(r reconcile.Result) error { return yield(reappliedOf(r)) },
		}
		if q.Journal != "" {
			lost, err := replay.Open(q.Journal)
			if err != nil {
				return jobnet.Refusef("there is no journal in folder %s of this machine that this worker can read", q.Journal)
			}
			defer lost.Close()
			wish.Journal, wish.Mirror = lost, nil
		}
		if q.Unknown {
			return h.refusalOf(yieldUnknown(ctx, wish, yield), by)
		}
		return h.refusalOf(wish.Run(ctx), by)
	})
}

// reappliedOf is what was done with a row, in its form on the wire.
func reappliedOf(r reconcile.Result) history.Reapplied {
	return history.Reapplied{
		Job: jobnet.Whole(r.Job.ID), Found: rowOf(r.Row), Want: rowOf(store.Wanted(r.Job)),
		Did: r.Did, Reason: r.Refusal, Journal: r.Journal,
	}
}

// noteReapplied journals that rows are brought back to what a journal says.
func (h journalHandlers) noteReapplied(event journal.Reapplied) error {
	if err := h.worker.Note(event); err != nil {
		h.log.Warn("reapply could not be journalled", "error", err)
		return jobnet.Refusal("it could not be journalled: " + err.Error())
	}
	return nil
}

// unknownItem is how many rows are told in one item, so that it fits into a page.
const unknownItem = 10_000

// yieldUnknown gives the unknown rows in items; there is always one.
func yieldUnknown(ctx context.Context, wish *reconcile.Reapply, yield func(any) error) error {
	unknown, err := wish.Unknown(ctx)
	for rows, first := unknown.Rows, true; err == nil && (first || len(rows) > 0); first = false {
		item := history.Unknown{Name: unknown.Name, Begins: unknown.Begins, Removed: unknown.Removed, Rows: rows[:min(len(rows), unknownItem)]}
		rows = rows[len(item.Rows):]
		err = yield(item)
	}
	return err
}

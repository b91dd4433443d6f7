package main

import (
	"context"
	"errors"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/journal/replay"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store"
	"jobd/store/reconcile"
)

func (h journalHandlers) diff(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	var q history.DiffQuery
	if err := api.ReadQuery(request.Data, &q); err != nil {
		return nil, err
	}
	return h.open(ctx, link, func(ctx context.Context, r *replay.Reader, yield func(any) error) error {
		return h.refusalOf(reconcile.Diff(ctx, h.own(r), func(d reconcile.Difference) error {
			item := history.Difference{
				Job: jobnet.Whole(d.Job.ID), Want: rowOf(store.Wanted(d.Job)), Found: rowOf(d.Row),
				Cause: string(d.Cause), Reason: d.Reason,
			}
			if !q.Selects(item) {
				return nil
			}
			return yield(item)
		}), "")
	})
}

// own is the comparison of the worker's own journal with the table.
func (h journalHandlers) own(r *replay.Reader) reconcile.Config {
	return reconcile.Config{Journal: r, Table: h.table, Mirror: h.mirror}
}

// refusalOf is an error of a comparison as clients hear it. What the table's error was, the log
// says; that rows are unknown is journalled.
func (h journalHandlers) refusalOf(err error, by string) error {
	var table *reconcile.TableError
	var unknown *reconcile.UnknownError
	switch {
	case errors.As(err, &table):
		h.log.Warn(table.Doing+" failed", "error", table.Err)
		return errTable
	case errors.As(err, &unknown):
		h.refusals.NoteRefused(journal.Refused{Request: api.JournalReapply, Reason: unknown.Error(), By: by})
		return jobnet.Refusal(unknown.Error())
	}
	return err
}

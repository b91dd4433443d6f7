package main

import (
	"context"

	"jobd/cmd/internal/history"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store"
)

// errTable is what clients hear of a table that fails; the log says why.
const errTable = jobnet.Refusal("the table can't be read now; the worker's log says why")

func (h journalHandlers) rows(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
	ids, err := api.ReadRowIDs(request.Fields())
	if err != nil {
		return nil, err
	}
	request.Proceed()
	answer := history.RowsAnswer{Rows: []history.Row{}}
	if len(ids) == 0 {
		return answer, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found, err := h.table.Look(ctx, ids)
	if err != nil {
		h.log.Warn("looking at rows for a client failed", "error", err)
		return nil, errTable
	}
	if err := h.addPlans(ctx, found); err != nil {
		h.log.Warn("reading what rows say about time for a client failed", "error", err)
		return nil, errTable
	}
	for _, id := range ids {
		if row := found[id]; row != nil {
			answer.Rows = append(answer.Rows, *rowOf(row))
		}
	}
	return answer, nil
}

// addPlans adds what rows say about time, where they have not told that yet.
func (h journalHandlers) addPlans(ctx context.Context, rows map[int64]*store.Seen) error {
	var ids []int64
	for id, row := range rows {
		if row.Plan == nil {
			ids = append(ids, id)
		}
	}
	plans, err := h.table.Plans(ctx, ids)
	for id, plan := range plans {
		rows[id].Plan = plan
	}
	return err
}

// rowOf is a row in its form on the wire; nil of none.
func rowOf(row *store.Seen) *history.Row {
	if row == nil {
		return nil
	}
	return &history.Row{
		Job: jobnet.Whole(row.Job), Target: row.Target, Status: row.Status, Owner: row.Owner,
		Started: row.Started, Finished: row.Finished, Result: row.Result, Code: row.Code, Signal: row.Signal,
		Plan: row.Plan,
	}
}

package service

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store"
)

// Delayed lists delayed rows in the order in which they are due. It changes nothing, so there is
// nothing for a crash to leave behind. A table that is out of reach is not asked.
func (s *Service) Delayed(ctx context.Context, _ Call, q api.DelayedQuery) (told api.DelayedRows, err error) {
	if now := s.Process.Database(); !now.Reachable {
		return told, jobnet.Refusef("the database is away since %s: %s", now.Since.UTC().Format(time.RFC3339), now.Error)
	}
	if q.Targets == nil {
		q.Targets = slices.Sorted(maps.Keys(s.Worker.Status().Targets))
	}
	ctx, cancel := context.WithTimeout(ctx, recurringTimeout)
	defer cancel()
	rows, err := s.Table.Delayed(ctx, q.Targets, q.Most)
	switch {
	case errors.Is(err, store.ErrNoDelays):
		return told, jobnet.Refusal(err.Error())
	case err != nil:
		s.Logger.Warn("looking for delayed rows for a client failed", "error", err)
		return told, jobnet.Refusef("delayed rows can't be read now: %v", err)
	}
	now := time.Now()
	told.Rows = make([]api.DelayedRow, len(rows))
	for i, row := range rows {
		told.Rows[i] = api.DelayedRow{
			Job: jobnet.Whole(row.Job), Target: row.Target, RowPlan: *s.rowPlan(row.Status, row.Target, row.Plan, now),
			Finished: row.Finished, Result: row.Result, Code: row.Code, Signal: row.Signal,
		}
	}
	told.More = len(rows) == q.Most
	return told, nil
}

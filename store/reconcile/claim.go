package reconcile

import (
	"context"
	"errors"
	"slices"

	"jobd/journal"
	"jobd/store"
)

// claim makes rows that nobody has what they were after the journal's claims, which are durable
// already: nothing is journalled.
func (b *batch) claim(ctx context.Context, list []Difference) error {
	var free []Difference
	for _, d := range list {
		if d.Job.Status != journal.StatusReleased && d.Job.Status != journal.StatusRetried && (b.stale[d.Job.ID] || !d.Row.UnderWay()) {
			free = append(free, d)
		}
	}
	return b.claimAll(ctx, free)
}

// claimAll claims rows in one transaction. Rows that the table refuses are left, and where it does
// not say which, halves are claimed.
func (b *batch) claimAll(ctx context.Context, list []Difference) error {
	if len(list) == 0 {
		return nil
	}
	err := b.claimOnce(ctx, list)
	var known *store.RefusedRows
	switch {
	case err == nil:
		return nil
	case isTables(ctx, err):
		return tableFailed(err)
	case errors.As(err, &known) && len(known.Rows) > 0:
		for id, why := range known.Rows {
			b.refused[id] = heldNow + why
		}
		return b.claimAll(ctx, b.accepted(list))
	case len(list) == 1:
		b.refused[list[0].Job.ID] = heldNow + err.Error()
		return nil
	}
	half := len(list) / 2
	if err := b.claimAll(ctx, list[:half]); err != nil {
		return err
	}
	return b.claimAll(ctx, list[half:])
}

// claimOnce claims rows. One that somebody else holds, a claim under way among them, is left for
// another reapply. A worker that is in doubt about its commit finds its token. A claim that it gave
// up meanwhile is none any more.
func (b *batch) claimOnce(ctx context.Context, list []Difference) error {
	byID := make(map[int64]Difference, len(list))
	var ids []int64
	var targets []string
	for _, d := range list {
		byID[d.Job.ID] = d
		ids = append(ids, d.Job.ID)
		if !slices.Contains(targets, d.Job.Target) {
			targets = append(targets, d.Job.Target)
		}
	}
	won := make(map[int64]bool, len(list))
	locked, err := b.Table.ClaimManual(ctx, ids, targets, func(rows []journal.Row) (events []journal.Event, err error) {
		clear(won)
		if err := b.tail.readOn(ctx); err != nil {
			return nil, err
		}
		for _, row := range rows {
			d := byID[row.Job]
			if !store.IsFree(row) || row.Target != d.Row.Target || store.IsSetBack(d.Job, row) || !waitsStill(d, row) {
				continue
			}
			stands, err := b.stands(ctx, d.Job)
			if err != nil {
				return nil, err
			}
			if stands {
				won[row.Job] = true
				events = append(events, journal.Event{Job: row.Job, Payload: store.ClaimOf(d.Job)})
			}
		}
		return events, nil
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		switch {
		case slices.Contains(locked, id):
			b.refused[id] = heldNow + "somebody else holds a lock on it"
		case !won[id]:
			b.refused[id] = changedMeanwhile
		}
	}
	return nil
}

// waitsStill tells whether a row, if it is delayed, waits still for the run that it was judged by: as
// it was seen, or as it was given back.
func waitsStill(d Difference, row journal.Row) bool {
	return row.Status != journal.RowDelayed || store.AsFound(d.Job, row.Plan, row.Finished) ||
		d.Row.Status == journal.RowDelayed && store.SameRun(d.Row.Plan, row.Plan)
}

// stands tells whether a claim is still what the journal says of its job.
func (b *batch) stands(ctx context.Context, job journal.Job) (bool, error) {
	if !b.tail.has(job.ID) {
		return true, nil
	}
	now, _, err := replay(ctx, b.Journal, job.ID)
	return err == nil && now.Status != journal.StatusReleased && now.Status != journal.StatusRetried && (now.Status == journal.StatusNone || now.Token == job.Token), err
}

package reconcile

import (
	"context"
	"slices"

	"jobd/journal"
	"jobd/store"
)

const changedMeanwhile = "somebody changed it meanwhile"

// heldNow begins why a row is left that can be reapplied later.
const heldNow = "it can't be changed now; reapply again later: "

// leftUnderWay is why a job of a worker that is gone is left alone: nobody would bring it to an
// end.
const leftUnderWay = "it was under way when that journal ends: whether it ran is not known"

// retriedElsewhere is why a row is left alone that this journal knows to have ended.
const retriedElsewhere = "another worker's journal says that it was retried since"

// batch is rows on their way to what the journal says.
type batch struct {
	*reapplying
	refused map[int64]string // why rows are left as found
	stale   map[int64]bool   // rows that bear an earlier claim of their job
}

// accepted are the rows of a list that were not refused.
func (b *batch) accepted(list []Difference) []Difference {
	return slices.DeleteFunc(slices.Clone(list), func(d Difference) bool { return b.refused[d.Job.ID] != "" })
}

// judge finds out whether the journal's story goes on from what a row says.
func (b *batch) judge(ctx context.Context, d Difference) (err error) {
	job, row := d.Job, d.Row
	if row != nil && row.UnderWay() && row.Owner != job.Token {
		if b.stale[job.ID], err = Claimed(ctx, b.Journal, job.ID, row.Owner); err != nil {
			return err
		}
	}
	if row != nil && row.Status == journal.RowDelayed && row.Plan != nil {
		if b.stale[job.ID], err = found(ctx, b.Journal, job.ID, row); err != nil {
			return err
		}
	}
	why := store.Refusal(job, row, b.stale[job.ID])
	if why == "" && job.Status == journal.StatusDone && job.Ended.Unix() <= b.wish.Retried[job.ID] {
		why = retriedElsewhere
	}
	if why == "" && b.tail == nil && !job.Status.Ended() {
		why = leftUnderWay
	}
	if why != "" {
		b.refused[job.ID] = why
	}
	return nil
}

// giveBack gives rows back that bear a claim which was given up.
func (b *batch) giveBack(ctx context.Context, list []Difference) error {
	var changes []store.Change
	for _, d := range list {
		if d.Row.UnderWay() && b.stale[d.Job.ID] || d.Job.Status == journal.StatusReleased || d.Job.Status == journal.StatusRetried {
			changes = append(changes, store.GiveBack(d.Job, d.Row))
		}
	}
	return b.apply(ctx, changes)
}

// apply applies changes with the mirror's guards.
func (b *batch) apply(ctx context.Context, changes []store.Change) error {
	if len(changes) == 0 {
		return nil
	}
	outcomes, err := b.Table.Apply(ctx, changes)
	switch {
	case err != nil && isTables(ctx, err):
		return tableFailed(err)
	case err != nil && len(changes) == 1:
		b.refused[changes[0].Job] = heldNow + err.Error()
		return nil
	case err != nil: // some row's
		half := len(changes) / 2
		if err := b.apply(ctx, changes[:half]); err != nil {
			return err
		}
		return b.apply(ctx, changes[half:])
	}
	for i, o := range outcomes {
		id := changes[i].Job
		switch o.Fate {
		case store.Lost:
			b.refused[id] = changedMeanwhile
		case store.Edited:
			b.refused[id] = heldNow + "its schedule was edited while it ran"
		case store.Refused:
			b.refused[id] = "the server takes it in no form: " + o.Note
		case store.Held:
			b.refused[id] = heldNow + o.Note
		}
	}
	return nil
}

// isTables tells whether an error is not about some of the rows.
func isTables(ctx context.Context, err error) bool { return store.IsAway(err) || ctx.Err() != nil }

// tableFailed is the error of a table that can't be used now.
func tableFailed(err error) error { return &TableError{"reapplying to the table", err} }

package reconcile

import (
	"context"

	"jobd/journal"
	"jobd/store"
)

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

// judge finds out whether the journal's story goes on from what a row says.
func (b *batch) judge(ctx context.Context, d Difference) (err error) {
	job, row := d.Job, d.Row
	if row != nil && row.UnderWay() && row.Owner != job.Token {
		claim, _, err := Claimed(ctx, b.Journal, job.ID, row.Owner)
		if err != nil {
			return err
		}
		b.stale[job.ID] = claim != nil
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

// bring brings rows that were not refused.
func (b *batch) bring(ctx context.Context, list []Difference) error {
	var past []store.Past
	for _, d := range list {
		if b.refused[d.Job.ID] == "" {
			past = append(past, store.Past{Job: d.Job, Row: d.Row, Stale: b.stale[d.Job.ID]})
		}
	}
	read := ends{}
	bringing := store.Bringing{
		Table: b.Table, Tries: 1, Later: heldNow, Left: b.refused, Won: map[int64]bool{}, Free: b.free,
		End: func(ctx context.Context, p store.Past) (*journal.Done, error) { return read.of(ctx, b.Journal, p.Job) },
	}
	if err := bringing.Rows(ctx, past); err != nil {
		return tableFailed(err)
	}
	return nil
}

// free tells whether a locked row waits still for the run that it was judged by, and its claim is still
// what the journal says. A worker that is in doubt about its commit finds its token. A claim that it
// gave up meanwhile is none any more.
func (b *batch) free(ctx context.Context, p store.Past, row journal.Row) (bool, error) {
	if err := b.tail.readOn(ctx); err != nil {
		return false, err
	}
	waits := row.Status != journal.RowDelayed || store.AsFound(p.Job, row.Plan, row.Finished) ||
		p.Row.Status == journal.RowDelayed && store.SameRun(p.Row.Plan, row.Plan)
	if row.Target != p.Row.Target || !waits || !b.tail.has(p.Job.ID) {
		return row.Target == p.Row.Target && waits, nil
	}
	now, _, err := replay(ctx, b.Journal, p.Job.ID)
	return err == nil && now.Status != journal.StatusReleased && now.Status != journal.StatusRetried &&
		(now.Status == journal.StatusNone || now.Token == p.Job.Token), err
}

// tableFailed is the error of a table that can't be used now.
func tableFailed(err error) error { return &TableError{"reapplying to the table", err} }

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

// bringAll brings rows back, and tells why others are left as found.
func (p *reapplying) bringAll(ctx context.Context, list []Difference) (refused map[int64]string, err error) {
	refused = make(map[int64]string)
	var past []store.Past
	for _, d := range list {
		stale, why, err := p.judge(ctx, d)
		if err != nil {
			return nil, err
		}
		if why == "" {
			past = append(past, store.Past{Job: d.Job, Row: d.Row, Stale: stale})
		} else {
			refused[d.Job.ID] = why
		}
	}
	if p.wish.DryRun || len(past) == 0 {
		return refused, nil
	}
	if err := p.noteBeginning(); err != nil {
		return nil, err
	}
	read := ends{}
	bringing := store.Bringing{
		Table: p.Table, Tries: 1, Later: heldNow, Left: refused, Won: map[int64]bool{}, Free: p.free,
		End: func(ctx context.Context, past store.Past) (*journal.Done, error) {
			return read.of(ctx, p.Journal, past.Job)
		},
	}
	if err := bringing.Rows(ctx, past); err != nil {
		return refused, tableFailed(err)
	}
	return refused, nil
}

// judge finds out whether the journal's story goes on from what a row says, and why not; stale tells that
// the row bears an earlier claim of its job, or is delayed and reads as one has found it.
func (p *reapplying) judge(ctx context.Context, d Difference) (stale bool, why string, err error) {
	job, row := d.Job, d.Row
	if row != nil && (row.UnderWay() && row.Owner != job.Token || row.Status == journal.RowDelayed) {
		if stale, err = found(ctx, p.Journal, job.ID, row); err != nil {
			return false, "", err
		}
	}
	why = store.Refusal(job, row, stale)
	if why == "" && job.Status == journal.StatusDone && job.Ended.Unix() <= p.wish.Retried[job.ID] {
		why = retriedElsewhere
	}
	if why == "" && p.tail == nil && !job.Status.Ended() {
		why = leftUnderWay
	}
	return stale, why, nil
}

// free tells whether a locked row waits still for the run that it was judged by, and its claim is still
// what the journal says. A worker that is in doubt about its commit finds its token. A claim that it
// gave up meanwhile is none any more.
func (p *reapplying) free(ctx context.Context, past store.Past, row journal.Row) (bool, error) {
	if err := p.tail.readOn(ctx); err != nil {
		return false, err
	}
	waits := row.Status != journal.RowDelayed || store.AsFound(past.Job, row.Plan, row.Finished) ||
		past.Row.Status == journal.RowDelayed && store.SameRun(past.Row.Plan, row.Plan)
	if row.Target != past.Row.Target || !waits || !p.tail.has(past.Job.ID) {
		return row.Target == past.Row.Target && waits, nil
	}
	now, _, err := replay(ctx, p.Journal, past.Job.ID)
	return err == nil && now.Status != journal.StatusReleased && now.Status != journal.StatusRetried &&
		(now.Status == journal.StatusNone || now.Token == past.Job.Token), err
}

// tableFailed is the error of a table that can't be used now.
func tableFailed(err error) error { return &TableError{"reapplying to the table", err} }

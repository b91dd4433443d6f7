package main

import (
	"context"
	"errors"
	"slices"

	"jobd/journal"
	"jobd/store"
)

const changedMeanwhile = "somebody changed it meanwhile"

// heldNow begins why a row is left that can be reapplied later.
const heldNow = "it can't be changed now; reapply again later: "

// changeOf is what the mirror would make of a job's row; nothing for a job that is accepted, since the claim did that already.
func changeOf(ctx context.Context, r *journal.Reader, job journal.Job) (store.Change, error) {
	change := changeFrom(job)
	switch job.Status {
	case journal.StatusStarting, journal.StatusRunning:
		change.Status = journal.RowRunning
	case journal.StatusDone:
		change.Status, change.Finish = journal.RowDone, job.Ended
		newest := journal.Filter{Job: job.ID, Kinds: []journal.Kind{journal.KindDone}, Last: 1, Output: true}
		for e, err := range r.Events(ctx, newest) {
			if err != nil {
				return change, err
			}
			if done, ok := e.Payload.(journal.Done); ok {
				change.Done = &done
			}
		}
	}
	return change, nil
}

// bringing is rows on their way to what the journal says.
type bringing struct {
	*reapplying
	refused map[int64]string // why rows are left as found
	stale   map[int64]bool   // rows that bear an earlier claim of their job
}

// bringAll brings rows to what the journal says, and tells why others are left as found.
func (p *reapplying) bringAll(ctx context.Context, list []disagreement) (refused map[int64]string, err error) {
	b := bringing{p, make(map[int64]string), make(map[int64]bool)}
	for _, d := range list {
		if err := b.judge(ctx, d); err != nil {
			return nil, err
		}
	}
	if p.query.DryRun || len(b.refused) == len(list) {
		return b.refused, nil
	}
	if err := p.journalBegin(); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, []disagreement) error{b.giveBack, b.claim, b.end} {
		list = slices.DeleteFunc(slices.Clone(list), func(d disagreement) bool { return b.refused[d.job.ID] != "" })
		if err := step(ctx, list); err != nil {
			return nil, err
		}
	}
	return b.refused, nil
}

// judge tells whether the journal's story goes on from what a row says.
func (b *bringing) judge(ctx context.Context, d disagreement) (err error) {
	job, row := d.job, d.row
	if row != nil && row.UnderWay() && row.Owner != job.Token {
		if b.stale[job.ID], err = claimedBefore(ctx, b.reader, job.ID, row.Owner); err != nil {
			return err
		}
	}
	why := store.Refusal(job, row, b.stale[job.ID])
	if why == "" && b.moved.reader == nil && !job.Status.Ended() {
		why = leftUnderWay
	}
	if why != "" {
		b.refused[job.ID] = why
	}
	return nil
}

// leftUnderWay is why a job of a worker that is gone is left alone: nobody would bring it to an end.
const leftUnderWay = "it was under way when that journal ends: whether it ran is not known"

// giveBack gives rows back that bear a claim which was given up.
func (b *bringing) giveBack(ctx context.Context, list []disagreement) error {
	var changes []store.Change
	for _, d := range list {
		if b.stale[d.job.ID] || d.job.Status == journal.StatusReleased {
			changes = append(changes, store.GiveBack(d.job, d.row))
		}
	}
	return b.apply(ctx, changes)
}

// claim makes rows that nobody has what they were after the journal's claims, which are durable already: nothing is
// journalled.
func (b *bringing) claim(ctx context.Context, list []disagreement) error {
	var free []disagreement
	for _, d := range list {
		if d.job.Status != journal.StatusReleased && (b.stale[d.job.ID] || !d.row.UnderWay()) {
			free = append(free, d)
		}
	}
	return b.claimAll(ctx, free)
}

// claimAll claims rows in one transaction. Rows that the table refuses are left, and where it does not say which, halves are
// claimed.
func (b *bringing) claimAll(ctx context.Context, list []disagreement) error {
	if len(list) == 0 {
		return nil
	}
	err := b.claimOnce(ctx, list)
	var known interface{ Refused() map[int64]string }
	switch {
	case err == nil:
		return nil
	case store.IsAway(err) || ctx.Err() != nil:
		return b.tableFailed(err)
	case errors.As(err, &known) && len(known.Refused()) > 0:
		for id, why := range known.Refused() {
			b.refused[id] = heldNow + why
		}
		return b.claimAll(ctx, slices.DeleteFunc(slices.Clone(list), func(d disagreement) bool { return b.refused[d.job.ID] != "" }))
	case len(list) == 1:
		b.refused[list[0].job.ID] = heldNow + err.Error()
		return nil
	}
	half := len(list) / 2
	if err := b.claimAll(ctx, list[:half]); err != nil {
		return err
	}
	return b.claimAll(ctx, list[half:])
}

// claimOnce claims rows. One that somebody else holds, a claim under way among them, is left for another reapply. A worker that
// is in doubt about its commit finds its token. A claim that it gave up meanwhile is none any more.
func (b *bringing) claimOnce(ctx context.Context, list []disagreement) error {
	jobs := make(map[int64]disagreement, len(list))
	var ids []int64
	var targets []string
	for _, d := range list {
		jobs[d.job.ID] = d
		ids = append(ids, d.job.ID)
		if !slices.Contains(targets, d.job.Target) {
			targets = append(targets, d.job.Target)
		}
	}
	won := make(map[int64]bool, len(list))
	locked, err := b.table.ClaimManual(ctx, ids, targets, func(rows []journal.Row) (events []journal.Event, err error) {
		clear(won)
		if err := b.moved.look(ctx); err != nil {
			return nil, err
		}
		for _, row := range rows {
			d := jobs[row.Job]
			waits := row.Status == journal.RowWaiting || row.Status == journal.RowManual
			if !waits || row.Target != d.row.Target {
				continue
			}
			if stands, err := b.stands(ctx, d.job); err != nil || !stands {
				if err != nil {
					return nil, err
				}
				continue
			}
			won[row.Job] = true
			events = append(events, journal.Event{Job: row.Job, Payload: store.ClaimOf(d.job)})
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

// stands tells whether a claim is still what the journal says of its job.
func (b *bringing) stands(ctx context.Context, job journal.Job) (bool, error) {
	if b.moved.reader == nil || !b.moved.jobs[job.ID] {
		return true, nil
	}
	now, _, err := replayed(ctx, b.reader, job.ID)
	return err == nil && now.Status != journal.StatusReleased && (now.Status == journal.StatusNone || now.Token == job.Token), err
}

// endBytes is how many bytes of output go into one transaction, or one more change.
const endBytes = 4 << 20

// end brings rows that bear their claims to what the mirror would make of them.
func (b *bringing) end(ctx context.Context, list []disagreement) error {
	var jobs []journal.Job
	for _, d := range list {
		switch d.job.Status {
		case journal.StatusStarting, journal.StatusRunning, journal.StatusDone:
			jobs = append(jobs, d.job)
		}
	}
	var changes []store.Change
	size := 0
	err := b.changes(ctx, jobs, func(change store.Change) error {
		if changes = append(changes, change); change.Done != nil {
			size += len(change.Done.Stdout.Kept) + len(change.Done.Stderr.Kept)
		}
		if size < endBytes {
			return nil
		}
		all := changes
		changes, size = nil, 0
		return b.apply(ctx, all)
	})
	if err != nil {
		return err
	}
	return b.apply(ctx, changes)
}

// nearby is how many events a page of ends may lie apart, for each of them, to be read in one go.
const nearby = 200

// changes gives what the mirror would make of the jobs' rows. Ends are read in one go where they lie close together.
func (b *bringing) changes(ctx context.Context, jobs []journal.Job, use func(store.Change) error) error {
	done := make(map[uint64]journal.Job)
	first, last := uint64(0), uint64(0)
	for _, job := range jobs {
		if job.Status == journal.StatusDone && job.End > 0 {
			done[job.End] = job
			if first == 0 || job.End < first {
				first = job.End
			}
			last = max(last, job.End)
		}
	}
	if last-first > nearby*uint64(len(done)) {
		clear(done)
	}
	if len(done) > 0 {
		for e, err := range b.reader.Events(ctx, journal.Filter{After: first - 1, Kinds: []journal.Kind{journal.KindDone}, Output: true}) {
			if err != nil {
				return err
			}
			if e.Seq > last {
				break
			}
			if job, wanted := done[e.Seq]; wanted {
				end := e.Payload.(journal.Done)
				change := changeFrom(job)
				change.Status, change.Finish, change.Done = journal.RowDone, job.Ended, &end
				if err := use(change); err != nil {
					return err
				}
			}
		}
	}
	for _, job := range jobs {
		if _, given := done[job.End]; given {
			continue
		}
		change, err := changeOf(ctx, b.reader, job)
		if err != nil {
			return err
		}
		if change.Status == journal.RowDone && change.Done == nil {
			b.refused[job.ID] = "how it ended is not in the journal any more"
			continue
		}
		if err := use(change); err != nil {
			return err
		}
	}
	return nil
}

// changeFrom is a change of a job's row as its claim left it.
func changeFrom(job journal.Job) store.Change {
	return store.Change{Job: job.ID, Target: job.Target, Token: job.Token, Accepted: job.Accepted, Start: job.Running}
}

// apply applies changes with the mirror's guards.
func (b *bringing) apply(ctx context.Context, changes []store.Change) error {
	if len(changes) == 0 {
		return nil
	}
	outcomes, err := b.table.Apply(ctx, changes)
	switch {
	case err != nil && (store.IsAway(err) || ctx.Err() != nil):
		return b.tableFailed(err)
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
		case store.Refused:
			b.refused[id] = "the server takes it in no form: " + o.Note
		case store.Held:
			b.refused[id] = heldNow + o.Note
		}
	}
	return nil
}

// tableFailed logs a failure of the table, and gives what clients hear of it.
func (h journalHandlers) tableFailed(err error) error {
	if err == nil {
		return nil
	}
	h.log.Warn("reapplying to the table failed", "error", err)
	return errTable
}

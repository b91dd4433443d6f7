package store

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"jobd/journal"
)

// Past is a job whose row says less than a journal does.
type Past struct {
	Job   journal.Job
	Row   *Seen
	Stale bool // the row bears an earlier claim of the job, or is delayed and reads as one has found it
}

// released tells whether the job's last claim was given up, so that its row must be nobody's.
func (p *Past) released() bool {
	return p.Job.Status == journal.StatusReleased || p.Job.Status == journal.StatusRetried
}

// Bringing brings rows to what a journal says of their jobs, after the table went back in time: by the
// way of a claim and of the mirror, with the tokens that the journal has for the claims, and so with
// their guards. Rows that bear a claim which was given up are given back, rows that nobody has are
// claimed again, and those that bear their claims get what the mirror makes of them.
//
// Nothing is journalled: the claims are durable already. Killed between two steps, a row bears the
// token of its claim, and the next comparison goes on from there.
type Bringing struct {
	Table Changer
	// Free tells whether a row that is locked now is still the one that was judged, and nobody's.
	Free func(ctx context.Context, p Past, row journal.Row) (bool, error)
	// End is how a job ended, with its output; nil: it is not known any more.
	End func(ctx context.Context, p Past) (*journal.Done, error)
	// outcome is told what became of each change; it may be nil.
	outcome func(change Change, o Outcome)
	Tries   int    // of claims of rows that somebody else holds
	Later   string // begins why a row is left that may be brought another time

	Left map[int64]string // rows that were left as found, and why
	Won  map[int64]bool   // rows that were claimed again
}

// ChangedMeanwhile is why a row is left that is not as it was judged.
const ChangedMeanwhile = "somebody changed it meanwhile"

// Rows brings rows that were judged. An error is the table's, or the journal's.
func (b *Bringing) Rows(ctx context.Context, list []Past) error {
	var back []Change
	for _, p := range list {
		if p.Row.UnderWay() && (p.Stale || p.released()) {
			back = append(back, giveBack(p.Job, p.Row))
		}
	}
	if err := b.apply(ctx, back); err != nil {
		return err
	}
	free := b.those(list, func(p Past) bool { return !p.released() && (p.Stale || !p.Row.UnderWay()) })
	if err := b.claim(ctx, free); err != nil {
		return err
	}
	return b.finish(ctx, b.those(list, func(p Past) bool { return !p.released() }))
}

// those are the rows of a list that were not left, and are wanted.
func (b *Bringing) those(list []Past, want func(p Past) bool) (those []Past) {
	for _, p := range list {
		if b.Left[p.Job.ID] == "" && want(p) {
			those = append(those, p)
		}
	}
	return those
}

// finish makes of rows that bear their claims what the mirror makes of them, in the order of their ends.
func (b *Bringing) finish(ctx context.Context, list []Past) error {
	slices.SortStableFunc(list, func(a, b Past) int { return cmp.Compare(a.Job.End, b.Job.End) })
	var changes []Change
	bytes := 0
	for _, p := range list {
		change := changeTo(p.Job)
		if change.Status == "" || change.Status == journal.RowIgnored && (!p.Row.UnderWay() || p.Stale) {
			continue // its claim has shown all there is
		}
		if p.Job.Status == journal.StatusDone {
			end, err := b.End(ctx, p)
			if err != nil {
				return err
			}
			if end == nil {
				b.Left[p.Job.ID] = "how it ended is not in the journal any more"
				continue
			}
			change.endAs(p.Job, *end)
		}
		changes = append(changes, change)
		if bytes += change.size(); bytes > batchBytes {
			if err := b.apply(ctx, changes); err != nil {
				return err
			}
			changes, bytes = nil, 0
		}
	}
	return b.apply(ctx, changes)
}

// apply applies changes with the mirror's guards.
func (b *Bringing) apply(ctx context.Context, changes []Change) error {
	if len(changes) == 0 {
		return nil
	}
	outcomes, err := b.Table.Apply(ctx, changes)
	if err != nil {
		return err
	}
	for i, o := range outcomes {
		id := changes[i].Job
		switch o.Fate {
		case Lost:
			b.Left[id] = ChangedMeanwhile
		case Refused:
			b.Left[id] = "the server refuses it in every form: " + o.Note
		case Held:
			b.Left[id] = b.Later + o.Note
		}
		if b.outcome != nil {
			b.outcome(changes[i], o)
		}
	}
	return nil
}

// claimPause is the longest pause between two tries to claim rows again.
const claimPause = 500 * time.Millisecond

// claim claims rows again that nobody has. Where that fails halves are claimed, down to single rows.
func (b *Bringing) claim(ctx context.Context, list []Past) error {
	for try := 1; len(list) > 0; try++ {
		locked, err := b.claimOnce(ctx, list)
		var refused interface{ Refused() map[int64]string }
		why, half := "somebody else holds a lock on it", len(list)/2
		switch {
		case IsAway(err), ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case err != nil && half > 0:
			if err := b.claim(ctx, list[:half]); err != nil {
				return err
			}
			return b.claim(ctx, list[half:])
		case err != nil:
			why = err.Error()
		default:
			list = b.those(list, func(p Past) bool { return slices.Contains(locked, p.Job.ID) })
		}
		if try >= b.Tries || errors.As(err, &refused) {
			for _, p := range list {
				b.Left[p.Job.ID] = b.Later + why
			}
			return nil
		}
		if len(list) > 0 {
			select {
			case <-time.After(rand.N(min(claimPause, 10*time.Millisecond<<min(try, 10)))):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// claimOnce claims rows in one transaction. A row that is not as it was judged is left.
func (b *Bringing) claimOnce(ctx context.Context, list []Past) (locked []int64, err error) {
	byID := make(map[int64]Past, len(list))
	var ids []int64
	var targets []string
	for _, p := range list {
		byID[p.Job.ID] = p
		ids, targets = append(ids, p.Job.ID), append(targets, p.Job.Target)
	}
	slices.Sort(targets)
	won := map[int64]bool{}
	locked, err = b.Table.ClaimManual(ctx, ids, slices.Compact(targets), func(rows []journal.Row) (events []journal.Event, err error) {
		clear(won)
		for _, row := range rows {
			p, asked := byID[row.Job]
			if !asked || !IsFree(row) || isSetBack(p.Job, row) { // since it was judged
				continue
			}
			if won[row.Job], err = b.Free(ctx, p, row); err != nil {
				return nil, err
			}
			if won[row.Job] {
				events = append(events, journal.Event{Job: row.Job, Payload: payloadOf(p.Job)})
			}
		}
		return events, nil
	})
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		switch {
		case won[id]:
			b.Won[id] = true
		case !slices.Contains(locked, id):
			b.Left[id] = ChangedMeanwhile
		}
	}
	return locked, nil
}

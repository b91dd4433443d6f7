package replay

import (
	"context"
	"errors"
	"iter"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
)

// Jobs gives every job as it stood at a time, once: first those at their end, by the event that
// changed them last, then the others by id. The zero time means now. It reads the history twice and
// takes some ten bytes of memory a job, up to a hundred where ids lie far apart, and more for the
// jobs under way and those that come to an end again. It ends at the first error, which is a
// *RemovedError where the history does not go back so far.
func (r *Reader) Jobs(ctx context.Context, at time.Time) iter.Seq2[journal.Job, error] {
	return func(yield func(journal.Job, error) bool) {
		end, err := uint64(0), error(nil)
		if !at.IsZero() {
			end, err = r.FirstAt(ctx, at.Truncate(time.Microsecond).Add(time.Microsecond))
			if removed, _ := r.Kept(ctx); err == nil && removed != nil && at.Before(removed.Since) {
				err = removed
			}
		}
		var last lastEvents
		if err == nil {
			last, err = r.lastEvents(ctx, end)
			if archive.IsDamage(err) {
				err = nil // it is met again where it matters
			}
		}
		more := true
		q := &sequence{folder: r.folder, sel: archive.Selection{End: end}, state: &journal.State{KeepEnded: true}}
		state := q.state
		if err == nil {
			err = q.read(ctx, func(e *journal.Event) error {
				if job, ok := state.Jobs[e.Job]; ok && job.Status.Ended() && last.of(e.Job) <= e.Seq {
					delete(state.Jobs, e.Job)
					more = job.Status == journal.StatusNone || yield(*job, nil) // a conflict alone makes no job
				}
				if !more {
					return errEnough
				}
				return nil
			})
		}
		if err != nil {
			yield(journal.Job{}, r.folder.Failed("replay", err))
			return
		}
		for _, job := range state.Unfinished() {
			if !more || !yield(job, nil) {
				return
			}
		}
	}
}

// lastEvents has the number of the newest event that may bring a job to its end or change that
// end, for each job, by eight ids: an application counts its ids up.
type lastEvents map[int64][8]uint64

func (l lastEvents) of(job int64) uint64 {
	return l[job>>3][job&7]
}

// lastEvents reads the events before end (0: all), without verifying them.
func (r *Reader) lastEvents(ctx context.Context, end uint64) (lastEvents, error) {
	last := lastEvents{}
	sel := archive.Selection{End: end, Kinds: []journal.Kind{
		journal.KindAccepted, journal.KindIgnored, journal.KindReleased, journal.KindDone, journal.KindCancelled,
		journal.KindRetried, journal.KindPlanned, journal.KindReplanned, journal.KindConflict,
	}}
	err := r.folder.Walk(ctx, 0, func(s archive.Source, h archive.Header) error {
		if sel.End > 0 && h.First >= sel.End {
			return errEnough
		}
		for page, err := range s.Records(ctx, sel) {
			for i := range page {
				eight := last[page[i].Job>>3]
				eight[page[i].Job&7] = page[i].Seq
				last[page[i].Job>>3] = eight
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return last, err
}

// UnderWay gives the jobs that were under way just before a time, by id; before the zero time, and
// before a time that the history does not go back to, those of its first checkpoint. It reads from
// the newest checkpoint before that time on.
func (r *Reader) UnderWay(ctx context.Context, at time.Time) ([]journal.Job, error) {
	end, err := uint64(1), error(nil)
	if !at.IsZero() {
		end, err = r.FirstAt(ctx, at)
	}
	var oldest archive.Header
	if err == nil {
		oldest, err = r.oldest(ctx, end-1)
	}
	state := &journal.State{}
	if first := oldest.First; first > 0 && err == nil {
		q := &sequence{folder: r.folder, sel: archive.Selection{After: first - 1, End: max(end, first)}, state: state}
		err = q.read(ctx, func(*journal.Event) error { return nil })
	}
	return state.Unfinished(), r.folder.Failed("replay", err)
}

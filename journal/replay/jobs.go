package replay

import (
	"context"
	"errors"
	"iter"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
)

// State is the state as it was at a time, by replay; the zero time means now. It holds every job
// that the history mentions, and so takes memory for each; see Jobs. A *RemovedError says that the
// history does not go back so far.
func (r *Reader) State(ctx context.Context, at time.Time) (*journal.State, error) {
	state := &journal.State{KeepEnded: true}
	end, err := r.endAt(ctx, at)
	if err == nil {
		err = r.replay(ctx, at, end, state, func(journal.Event) bool { return true })
	}
	if err != nil {
		return nil, r.folder.Failed("replay", err)
	}
	return state, nil
}

// Jobs gives every job as it stood at a time, once: first those at their end, by the event that
// changed them last, then the others by id. The zero time means now. It reads the history twice and
// takes some ten bytes of memory a job, up to a hundred where ids lie far apart, and more for the
// jobs under way and those that come to an end again. It ends at the first error, which is a
// *RemovedError where the history does not go back so far.
func (r *Reader) Jobs(ctx context.Context, at time.Time) iter.Seq2[journal.Job, error] {
	return func(yield func(journal.Job, error) bool) {
		end, err := r.endAt(ctx, at)
		var last lastEvents
		if err == nil {
			last, err = r.lastEvents(ctx, end)
			var gap *archive.MissingError
			if archive.IsDamage(err) || errors.As(err, &gap) {
				err = nil // it is met again where it matters
			}
		}
		state, more := &journal.State{KeepEnded: true}, true
		if err == nil {
			err = r.replay(ctx, at, end, state, func(e journal.Event) bool {
				if job, ok := state.Jobs[e.Job]; ok && job.Status.Ended() && last.of(e.Job) <= e.Seq {
					delete(state.Jobs, e.Job)
					more = job.Status == journal.StatusNone || yield(*job, nil) // a conflict alone makes no job
				}
				return more
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

func (l lastEvents) note(job int64, seq uint64) {
	eight := l[job>>3]
	eight[job&7] = seq
	l[job>>3] = eight
}

// lastEvents reads the events before end (0: all), without verifying them.
func (r *Reader) lastEvents(ctx context.Context, end uint64) (lastEvents, error) {
	last := lastEvents{}
	sel := archive.Selection{End: end, Kinds: []journal.Kind{
		journal.KindAccepted, journal.KindIgnored, journal.KindReleased, journal.KindDone, journal.KindCancelled,
		journal.KindRetried, journal.KindPlanned, journal.KindReplanned, journal.KindConflict,
	}}
	err := r.scan(ctx, sel, nil, func(rec *archive.Record) error {
		last.note(rec.Job, rec.Seq)
		return nil
	})
	if errors.Is(err, errPast) {
		err = nil
	}
	return last, err
}

// endAt is the sequence number of the first event after a time; 0 for the zero time, which means
// now.
func (r *Reader) endAt(ctx context.Context, at time.Time) (uint64, error) {
	if at.IsZero() {
		return 0, nil
	}
	return r.FirstAt(ctx, at.Truncate(time.Microsecond).Add(time.Microsecond))
}

// replay applies the events before end (0: all) to a state that begins where the history does, and
// gives each to use until that has enough.
func (r *Reader) replay(ctx context.Context, at time.Time, end uint64, state *journal.State, use func(journal.Event) bool) error {
	q := &sequence{folder: r.folder, end: end}
	q.begin = func(h archive.Header) error {
		before, err := h.State()
		if err != nil {
			return err
		}
		if h.Number > 1 && !at.IsZero() && at.Before(before.Time) {
			return &journal.RemovedError{First: h.First, Since: before.Time}
		}
		before.KeepEnded = state.KeepEnded
		*state = *before
		return nil
	}
	return q.read(ctx, func(e *journal.Event) error {
		if err := state.Apply(*e); err != nil {
			return &journal.DamagedError{Seq: e.Seq, Err: err}
		}
		if !use(*e) {
			return errEnough
		}
		return nil
	})
}

// UnderWay gives the jobs that were under way just before a time, by id; before the zero time, and
// before a time that the history does not go back to, those of its first checkpoint. It reads one
// segment, or two where one is not sealed yet.
func (r *Reader) UnderWay(ctx context.Context, at time.Time) ([]journal.Job, error) {
	state := &journal.State{}
	end, err := uint64(1), error(nil)
	if !at.IsZero() {
		end, err = r.FirstAt(ctx, at)
	}
	if err == nil {
		err = r.underWay(ctx, end, state)
	}
	if err != nil {
		return nil, r.folder.Failed("replay", err)
	}
	return state.Unfinished(), nil
}

// underWay makes state what it was before the event end, from the newest checkpoint before that on.
func (r *Reader) underWay(ctx context.Context, end uint64, state *journal.State) error {
	first := uint64(0)
	err := r.folder.Walk(ctx, end-1, func(_ archive.Part, _ archive.Source, h archive.Header) error {
		first = h.First
		return errEnough
	})
	if first == 0 || !errors.Is(err, errEnough) {
		return err
	}
	q := &sequence{folder: r.folder, after: first - 1, end: max(end, first)}
	q.begin = func(h archive.Header) error {
		before, err := h.State()
		if err == nil {
			*state = *before
		}
		return err
	}
	return q.read(ctx, func(e *journal.Event) error {
		if err := state.Apply(*e); err != nil {
			return &journal.DamagedError{Seq: e.Seq, Err: err}
		}
		return nil
	})
}

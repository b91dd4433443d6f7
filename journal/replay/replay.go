package replay

import (
	"context"
	"errors"
	"iter"
	"time"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/segment"
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

// Jobs gives every job as it stood at a time, once: first those at their end, by when they ended,
// then the others by id. The zero time means now. It reads the history twice and takes some bits of
// memory a claim, up to a hundred bytes where ids lie far apart, and more for the jobs under way.
// It ends at the first error, which is a *RemovedError where the history does not go back so far.
func (r *Reader) Jobs(ctx context.Context, at time.Time) iter.Seq2[journal.Job, error] {
	return func(yield func(journal.Job, error) bool) {
		state := &journal.State{KeepEnded: true}
		more := true
		end, err := r.endAt(ctx, at)
		var again map[int64]int
		retried := retries{}
		if err == nil {
			again, err = r.repeated(ctx, end, retried)
			var gap *folder.MissingError
			if segment.IsDamage(err) || errors.As(err, &gap) {
				err = nil // it is met again where it matters
			}
		}
		if err == nil {
			err = r.replay(ctx, at, end, state, func(e journal.Event) bool {
				job, ok := state.Jobs[e.Job]
				if ok && !job.Status.Ended() && e.Kind() == journal.KindReplanned { // of an older claim: no end of this one
					again[e.Job]--
				}
				if !ok || !job.Status.Ended() || !retried.ends(e, job) {
					return true
				}
				if again[e.Job] > 0 && (job.Status == journal.StatusIgnored || retried.needs(e.Job)) { // what comes back to it needs it
					again[e.Job]--
					return true
				}
				delete(state.Jobs, e.Job)
				if job.Status == journal.StatusNone { // a conflict with a job that is not under way changes nothing
					return true
				}
				if n := again[e.Job]; n > 0 {
					again[e.Job] = n - 1
					return true
				}
				more = yield(*job, nil)
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

// repeated gives, for the jobs that were claimed, ignored, retried or planned more than once, or
// ignored or retried and that was taken back, or whose end was planned anew, how often they come to
// an end after the first time. It notes those that were retried, or whose end was planned anew.
func (r *Reader) repeated(ctx context.Context, end uint64, retried retries) (map[int64]int, error) {
	begun, again := idSet{}, make(map[int64]int)
	ignored := make(map[int64]bool)
	first := true
	sel := segment.Selection{End: end, Kinds: []journal.Kind{
		journal.KindAccepted, journal.KindIgnored, journal.KindRetried, journal.KindPlanned, journal.KindReplanned, journal.KindConflict,
	}}
	err := r.folder.Walk(ctx, 0, func(_ folder.Part, s segment.Source, h segment.Header) error {
		if first {
			state, err := h.State()
			if err != nil {
				return err
			}
			for id := range state.Jobs {
				begun.add(id)
			}
			first = false
		}
		for page, err := range s.Records(ctx, sel) {
			for i := range page {
				job := page[i].Job
				sel.After = page[i].Seq
				if page[i].Kind == journal.KindReplanned {
					if begun.has(job) {
						again[job]++
						retried.note(job, page[i].Kind)
					}
					continue
				}
				if page[i].Kind != journal.KindConflict {
					if !begun.add(job) {
						again[job]++
					}
					retried.note(job, page[i].Kind)
					if ignored[job] = page[i].Kind == journal.KindIgnored; !ignored[job] {
						delete(ignored, job)
					}
					continue
				}
				if !ignored[job] && !retried.is(job) {
					continue
				}
				payload, err := page[i].DecodePayload()
				if err != nil {
					return err
				}
				conflict, ok := payload.(journal.Conflict)
				if ok && (ignored[job] && conflict.Wanted == journal.RowIgnored || retried.is(job) && conflict.Wanted == journal.WantedRetried) {
					retried.undo(job)
					again[job]++
					delete(ignored, job)
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return again, err
}

// idSet is a set of jobs, as bits by 512 ids. An application counts its ids up, so most bits of a
// stretch are used.
type idSet map[int64]*[8]uint64

// add reports whether an id is new.
func (s idSet) add(id int64) bool {
	stretch := s[id>>9]
	if stretch == nil {
		stretch = new([8]uint64)
		s[id>>9] = stretch
	}
	word, bit := &stretch[id>>6&7], uint64(1)<<(id&63)
	added := *word&bit == 0
	*word |= bit
	return added
}

// has reports whether an id is in it.
func (s idSet) has(id int64) bool {
	stretch := s[id>>9]
	return stretch != nil && stretch[id>>6&7]&(1<<(id&63)) != 0
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
	q.begin = func(h segment.Header) error {
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

package journal

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"
)

// Filter selects events. The zero value selects all.
type Filter struct {
	After  uint64    // only events behind this sequence number; where the next is not kept, a *RemovedError
	Job    int64     // only events of this job
	Kinds  []Kind    // only events of these kinds
	Target string    // only events of this target's jobs, and about the target
	Since  time.Time // only events at or after this time
	Until  time.Time // only events before this time
	Last   int       // only the newest n of these
	Output bool      // with the jobs' stdout and stderr
}

// errEnough ends a walk early.
var errEnough = errors.New("enough")

// Events gives the selected events, oldest first. It ends at the first error.
// A job's output is left out unless the filter asks for it.
func (r *Reader) Events(ctx context.Context, f Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		sel, err := r.resolve(ctx, f)
		if err == nil {
			err = r.events(ctx, sel, r.matcher(f), func(e Event) bool { return yield(e, nil) })
		}
		if err != nil {
			yield(Event{}, r.failed("read", err))
		}
	}
}

// events gives decoded events to yield until it has enough.
func (r *Reader) events(ctx context.Context, sel selection, m *matcher, yield func(Event) bool) error {
	var p payloads
	return r.scan(ctx, sel, m, func(rec *record) error {
		e, err := rec.decode(&p)
		if err != nil {
			return err
		}
		if !yield(e) {
			return errEnough
		}
		return nil
	})
}

// scan gives the records that are selected and that the matcher, where there is one, finds to match.
func (r *Reader) scan(ctx context.Context, sel selection, m *matcher, use func(*record) error) error {
	err := r.walk(ctx, sel.after, func(_ part, s source, h header) error {
		if sel.end > 0 && h.first >= sel.end {
			return errEnough
		}
		for page, err := range s.records(ctx, sel) {
			for i := range page {
				sel.after = page[i].seq // so that nothing is given twice should the segment be sealed meanwhile
				ok, matchErr := m.matches(ctx, &page[i])
				if matchErr != nil {
					return matchErr
				}
				if !ok {
					continue
				}
				if err := use(&page[i]); err != nil {
					return err
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// resolve puts times and counts into sequence numbers.
func (r *Reader) resolve(ctx context.Context, f Filter) (selection, error) {
	sel := selection{after: f.After, job: f.Job, kinds: f.Kinds, output: f.Output}
	if f.After > 0 {
		if err := r.reaches(ctx, f.After); err != nil {
			return sel, err
		}
	}
	if f.Target != "" && len(f.Kinds) > 0 {
		sel.kinds = append(slices.Clone(f.Kinds), KindAccepted) // which say whose target the others are
	}
	for _, bound := range []struct {
		at  time.Time
		set func(seq uint64)
	}{
		{f.Since, func(seq uint64) { sel.after = max(sel.after, seq-1) }},
		{f.Until, func(seq uint64) { sel.end = seq }},
	} {
		if bound.at.IsZero() {
			continue
		}
		seq, err := r.firstAt(ctx, bound.at)
		if err != nil {
			return sel, err
		}
		bound.set(seq)
	}
	if f.Last > 0 {
		return r.narrow(ctx, sel, f)
	}
	return sel, nil
}

// firstAt is the sequence number of the first event at or after a time; one after the newest where there is none.
func (r *Reader) firstAt(ctx context.Context, at time.Time) (uint64, error) {
	micros := at.Add(time.Microsecond - 1).UnixMicro() // rounded up: events have whole ones
	seq := uint64(1)
	err := r.walk(ctx, 0, func(_ part, s source, h header) error {
		if sealed, ok := s.(*sealed); ok && sealed.trailer.Ended < micros {
			seq = sealed.trailer.Last + 1
			return nil
		}
		found, err := s.firstAt(ctx, micros)
		if err != nil {
			return err
		}
		seq = max(found, h.first)
		last, _, err := s.end(ctx)
		if err == nil && seq <= last {
			err = errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return seq, err
}

// The newest events are looked for in stretches that grow: most often the first one has them.
const (
	firstStretch   = 1000
	longestStretch = 100_000
)

// narrow narrows a selection to the newest n events that it and the filter select now.
func (r *Reader) narrow(ctx context.Context, sel selection, f Filter) (selection, error) {
	newest, err := r.newest(ctx)
	if err != nil {
		return sel, err
	}
	if sel.end == 0 || sel.end > newest.Seq+1 {
		sel.end = newest.Seq + 1
	}
	found := newestSeqs{wanted: f.Last}
	stretch := sel
	stretch.output = false
	for length := uint64(firstStretch); ; length = min(2*length, longestStretch) {
		stretch.after = sel.after
		if f.Job == 0 && stretch.end > sel.after+length+1 { // a job's events are few, and found by index
			stretch.after = stretch.end - length - 1
		}
		var here []uint64
		if err := r.scan(ctx, stretch, r.matcher(f), func(rec *record) error {
			if here = append(here, rec.seq); len(here) > 2*f.Last {
				here = append(here[:0], here[len(here)-f.Last:]...)
			}
			return nil
		}); err != nil {
			return sel, err
		}
		if found.before(here) || stretch.after <= sel.after {
			break
		}
		stretch.end = stretch.after + 1
	}
	if len(found.seqs) == 0 {
		sel.end = sel.after + 1
		return sel, nil
	}
	sel.after = found.seqs[0] - 1
	return sel, nil
}

// newestSeqs collects sequence numbers from the newest back.
type newestSeqs struct {
	wanted int
	seqs   []uint64 // at most as many as wanted, in order
}

// before puts numbers before those that are there, and tells whether there are enough.
func (n *newestSeqs) before(seqs []uint64) bool {
	n.seqs = append(slices.Clone(seqs), n.seqs...)
	n.seqs = n.seqs[max(0, len(n.seqs)-n.wanted):]
	return len(n.seqs) == n.wanted
}

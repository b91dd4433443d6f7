package replay

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
)

// errEnough ends a walk early: who reads wants no more. errPast does where nothing more is
// selected.
var (
	errEnough = errors.New("enough")
	errPast   = errors.New("past the end of what is selected")
)

// Events gives the selected events, oldest first. It ends at the first error: what it gave before
// that is sound. A job's output is left out unless the filter asks for it.
func (r *Reader) Events(ctx context.Context, f journal.Filter) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		sel, err := r.resolve(ctx, f)
		var narrowed *narrowedError
		if err == nil || errors.As(err, &narrowed) {
			stopped := false
			readErr := r.Read(ctx, sel, r.matcher(f), func(e journal.Event) bool {
				stopped = !yield(e, nil)
				return !stopped
			})
			if stopped {
				return
			}
			if readErr != nil || err == nil {
				err = readErr
			}
		}
		if err != nil {
			yield(journal.Event{}, r.folder.Failed("read", err))
		}
	}
}

// scan gives the records that are selected and that the matcher, where there is one, finds to
// match. They are not verified.
func (r *Reader) scan(ctx context.Context, sel archive.Selection, m *matcher, use func(*archive.Record) error) error {
	return r.folder.Walk(ctx, sel.After, func(_ archive.Part, s archive.Source, h archive.Header) error {
		if sel.End > 0 && h.First >= sel.End {
			return errPast
		}
		for page, err := range s.Records(ctx, sel) {
			for i := range page {
				sel.After = page[i].Seq // so that nothing is given twice should the segment be sealed meanwhile
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
}

// resolve puts times and counts into sequence numbers.
func (r *Reader) resolve(ctx context.Context, f journal.Filter) (archive.Selection, error) {
	sel := archive.Selection{After: f.After, Job: f.Job, Kinds: f.Kinds, Output: f.Output}
	if f.After > 0 {
		if err := r.reaches(ctx, f.After); err != nil {
			return sel, err
		}
	}
	if f.Result != "" && len(f.Kinds) == 0 {
		sel.Kinds = []journal.Kind{journal.KindDone}
	}
	if f.Target != "" && len(sel.Kinds) > 0 {
		sel.Kinds = append(slices.Clone(sel.Kinds), journal.KindAccepted) // which say whose target the others are
	}
	for _, bound := range []struct {
		at  time.Time
		set func(seq uint64)
	}{
		{f.Since, func(seq uint64) { sel.After = max(sel.After, seq-1) }},
		{f.Until, func(seq uint64) { sel.End = seq }},
	} {
		if bound.at.IsZero() {
			continue
		}
		seq, err := r.FirstAt(ctx, bound.at)
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

// FirstAt is the sequence number of the first event at or after a time; one after the newest where
// there is none. It looks from the newest segment back, so that older ones matter only where they
// are needed.
func (r *Reader) FirstAt(ctx context.Context, at time.Time) (seq uint64, err error) {
	micros := at.Add(time.Microsecond - 1).UnixMicro() // rounded up: events have whole ones
	err = r.folder.Backward(ctx, false, func(s archive.Source, h archive.Header) (enough bool, err error) {
		if b, sealed := s.Bounds(); sealed && b.Begun >= micros {
			seq = h.First
			return false, nil
		}
		found, err := s.FirstAt(ctx, micros)
		seq = max(found, h.First)
		return seq > h.First, err // then there are events before the time
	})
	return max(seq, 1), err
}

// The newest events are looked for in stretches that grow: most often the first one has them.
const (
	firstStretch   = 1000
	longestStretch = 100_000
)

// narrow narrows a selection to the newest n events that it and the filter select now.
func (r *Reader) narrow(ctx context.Context, sel archive.Selection, f journal.Filter) (archive.Selection, error) {
	head, _, err := r.folder.Acknowledged()
	if err != nil {
		return sel, err
	}
	newest, err := r.folder.Newest(ctx)
	if err != nil {
		return sel, err
	}
	var lost error
	if sel.End == 0 || sel.End > newest.Seq {
		if lost = r.folder.EndsAt(head, newest); lost != nil && !archive.IsDamage(lost) {
			return sel, lost
		}
	}
	if sel.End == 0 || sel.End > newest.Seq+1 {
		sel.End = newest.Seq + 1
	}
	found := newestSeqs{wanted: f.Last}
	stretch := sel
	stretch.Output = false
	for length := uint64(firstStretch); err == nil; length = min(2*length, longestStretch) {
		stretch.After = sel.After
		if f.Job == 0 && stretch.End > sel.After+length+1 { // a job's events are few, and found by index
			stretch.After = stretch.End - length - 1
		}
		var here []uint64
		if stretch.After, err = r.within(ctx, stretch.After, stretch.End, f.Job); err == nil {
			err = r.scan(ctx, stretch, r.matcher(f), func(rec *archive.Record) error {
				if here = append(here, rec.Seq); len(here) > 2*f.Last {
					here = append(here[:0], here[len(here)-f.Last:]...)
				}
				return nil
			})
		}
		if errors.Is(err, errPast) {
			err = nil
		}
		if err == nil && found.before(here) || stretch.After <= sel.After {
			break
		}
		stretch.End = stretch.After + 1
	}
	if err != nil && !archive.IsDamage(err) {
		return sel, err
	}
	if err == nil {
		err = lost
	}
	if err != nil {
		err = &narrowedError{err} // what is behind the damage can be read
	}
	if len(found.seqs) == 0 {
		sel.End = sel.After + 1
		return sel, err
	}
	sel.After = found.seqs[0] - 1
	return sel, err
}

// narrowedError says why not as many of the newest events as were wanted could be found.
type narrowedError struct{ error }

// Unwrap gives the cause.
func (e *narrowedError) Unwrap() error { return e.error }

// within has a stretch before an event begin no earlier than the segment does that it ends in.
func (r *Reader) within(ctx context.Context, after, end uint64, job int64) (uint64, error) {
	if job != 0 || end <= after+1 {
		return after, nil
	}
	number, err := r.folder.BeginsBefore(ctx, end-1)
	if number > 0 && err == nil {
		if first, ok := r.folder.FirstOf(ctx, number); ok {
			after = max(after, first-1)
		}
	}
	return after, err
}

// newestSeqs collects sequence numbers from the newest back.
type newestSeqs struct {
	wanted int
	seqs   []uint64 // at most as many as wanted, in order
}

// before puts numbers before those that are there, and reports whether there are enough.
func (n *newestSeqs) before(seqs []uint64) bool {
	n.seqs = append(slices.Clone(seqs), n.seqs...)
	n.seqs = n.seqs[max(0, len(n.seqs)-n.wanted):]
	return len(n.seqs) == n.wanted
}

// matcher finds the events of one target: of its jobs, by the newest claim before the event, and
// those about the target itself; and those with a result, or asked for by somebody. A nil matcher matches everything. It is to be given every accepted
// event of the jobs it is asked about, in order.
type matcher struct {
	reader *Reader
	target string
	kinds  []journal.Kind
	says   journal.Filter   // of which Result and By count
	claims map[int64]string // the targets of jobs, as of now; "" where there was no claim
}

// maxClaims bounds what a matcher keeps; what is forgotten is looked up again.
const maxClaims = 100_000

func (r *Reader) matcher(f journal.Filter) *matcher {
	if f.Target == "" && f.Result == "" && f.By == "" {
		return nil
	}
	return &matcher{reader: r, target: f.Target, kinds: f.Kinds, says: f, claims: make(map[int64]string)}
}

func (m *matcher) matches(ctx context.Context, r *archive.Record) (bool, error) {
	if m == nil {
		return true, nil
	}
	return m.has(ctx, r.Seq, r.Job, r.Kind, r.DecodePayload)
}

// matchesEvent is matches of an event.
func (m *matcher) matchesEvent(ctx context.Context, e *journal.Event) (bool, error) {
	if m == nil {
		return true, nil
	}
	return m.has(ctx, e.Seq, e.Job, e.Kind(), func() (journal.Payload, error) { return e.Payload, nil })
}

func (m *matcher) has(ctx context.Context, seq uint64, job int64, kind journal.Kind, payload func() (journal.Payload, error)) (bool, error) {
	if m.target != "" {
		if about, err := m.isAbout(ctx, seq, job, kind, payload); err != nil || !about {
			return false, err
		}
	}
	switch {
	case len(m.kinds) > 0 && !slices.Contains(m.kinds, kind), m.says.Result != "" && kind != journal.KindDone:
		return false, nil
	case m.says.Result == "" && m.says.By == "":
		return true, nil
	}
	p, err := payload()
	return err == nil && m.says.Says(p), err
}

func (m *matcher) isAbout(ctx context.Context, seq uint64, job int64, kind journal.Kind, payload func() (journal.Payload, error)) (bool, error) {
	if job == 0 {
		p, err := payload()
		return err == nil && about(p, m.target), err
	}
	target, known := m.claims[job]
	switch {
	case kind == journal.KindAccepted:
		p, err := payload()
		if err != nil {
			return false, err
		}
		target = p.(journal.Accepted).Target
	case kind == journal.KindPlanned: // of a row that nobody has claimed, perhaps
		p, err := payload()
		if err != nil {
			return false, err
		}
		target = p.(journal.Planned).Target
	case !known:
		claim, _, err := m.reader.Claim(ctx, job, seq)
		if err != nil {
			return false, err
		}
		target = claim.Target
	}
	if len(m.claims) >= maxClaims {
		clear(m.claims)
	}
	m.claims[job] = target
	return target == m.target, nil
}

// about reports whether an event of the worker itself is about a target.
func about(p journal.Payload, target string) bool {
	switch p := p.(type) {
	case journal.Opened:
		_, ok := p.Targets[target]
		return ok
	case journal.Paused:
		return slices.Contains(p.Targets, target)
	case journal.Continued:
		return slices.Contains(p.Targets, target)
	case journal.TargetAdded:
		return p.Target == target
	case journal.TargetRemoved:
		return p.Target == target
	case journal.ConcurrencySet:
		return p.Target == target
	}
	return false
}

// Claim gives the newest accepted event of a job before seq; found is false where there is none. It
// looks from the newest segment back.
func (r *Reader) Claim(ctx context.Context, job int64, seq uint64) (claim journal.Accepted, found bool, err error) {
	newest, found, err := r.NewestOf(ctx, job, seq, journal.KindAccepted)
	if found {
		claim, _ = newest.(journal.Accepted)
	}
	return claim, found, err
}

// NewestOf gives what the newest event of a job before seq says that is of one of these kinds; found is
// false where there is none. It looks from the newest segment back.
func (r *Reader) NewestOf(ctx context.Context, job int64, seq uint64, kinds ...journal.Kind) (newest journal.Payload, found bool, err error) {
	if job == 0 {
		return nil, false, nil
	}
	err = r.folder.Backward(ctx, false, func(s archive.Source, h archive.Header) (enough bool, err error) {
		if h.First >= seq {
			return false, nil
		}
		for page, err := range s.Records(ctx, archive.Selection{Job: job, End: seq, Kinds: kinds}) {
			if err != nil {
				return found, err
			}
			if newest, err = page[len(page)-1].DecodePayload(); err != nil {
				return found, err
			}
			found = true
		}
		return found, nil
	})
	return newest, found, err
}

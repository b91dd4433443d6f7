package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"jobd/journal"
	"jobd/journal/archive"
)

// Read gives decoded and verified events to yield until it has enough.
func (r *Reader) Read(ctx context.Context, sel archive.Selection, m *matcher, yield func(journal.Event) bool) error {
	if sel.Job != 0 {
		return r.jobEvents(ctx, sel, m, yield)
	}
	q := &sequence{folder: r.folder, after: sel.After, end: sel.End}
	return q.read(ctx, func(e *journal.Event) error {
		if len(sel.Kinds) > 0 && !slices.Contains(sel.Kinds, e.Kind()) {
			return nil
		}
		if ok, err := m.matchesEvent(ctx, e); err != nil || !ok {
			return err
		}
		if !yield(withOutput(*e, sel.Output)) {
			return errEnough
		}
		return nil
	})
}

// withOutput is an event with its output or without.
func withOutput(e journal.Event, wanted bool) journal.Event {
	if done, ok := e.Payload.(journal.Done); ok && !wanted {
		done.Stdout.Kept, done.Stderr.Kept = nil, nil
		e.Payload = done
	}
	return e
}

// jobEvents gives the events of one job, which are found by an index: each is verified with the
// hash of the one before it.
func (r *Reader) jobEvents(ctx context.Context, sel archive.Selection, m *matcher, yield func(journal.Event) bool) error {
	output, from := sel.Output, sel.After
	sel.Output = true
	var p archive.Decoder
	var oldest *archive.Header
	head, headErr, err := r.folder.Acknowledged()
	if err != nil {
		return err
	}
	err = r.folder.Walk(ctx, sel.After, func(_ archive.Part, s archive.Source, h archive.Header) error {
		if sel.End > 0 && h.First >= sel.End {
			return errPast
		}
		if oldest == nil {
			oldest = &h
		}
		before := journal.Anchor{Seq: h.First - 1, Hash: h.Opening()}
		for page, err := range s.Records(ctx, sel) {
			for i := range page {
				rec := &page[i]
				if err := follows(ctx, s, rec, before); err != nil {
					return err
				}
				before = journal.Anchor{Seq: rec.Seq, Hash: rec.Hash}
				sel.After = rec.Seq
				if ok, err := m.matches(ctx, rec); err != nil {
					return err
				} else if !ok {
					continue
				}
				e, err := rec.Decode(&p)
				if err != nil {
					return err
				}
				if !yield(withOutput(e, output)) {
					return errEnough
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
	if err == nil || errors.Is(err, errPast) {
		err = r.folder.Ending(ctx, head, sel.End)
	}
	if err == nil {
		err = headErr
	}
	if err == nil {
		err = r.folder.CheckSchema(ctx)
	}
	if err == nil && from == 0 && oldest != nil {
		err = r.folder.Beginning(ctx, *oldest)
	}
	return err
}

// follows reports whether a record's hash is made of its content and the record before it, whose
// number and hash are known or else are looked up.
func follows(ctx context.Context, s archive.Source, rec *archive.Record, before journal.Anchor) error {
	if rec.Seq != before.Seq+1 {
		previous, err := archive.RecordAt(ctx, s, rec.Seq-1)
		if err != nil {
			return err
		}
		if previous == nil {
			return &journal.DamagedError{Seq: rec.Seq - 1, Detail: "it is missing"}
		}
		before = journal.Anchor{Seq: previous.Seq, Hash: previous.Hash}
	}
	return rec.Follows(before.Hash)
}

// Readers verify what they read: that it is what the hashes were made of, that nothing is missing
// in it, that segments go on from each other, and that it ends where the head file says. What was
// given before an error is sound in that sense; that all of it was rewritten only Audit tells, with
// anchors.

// sequence reads events one after the other.
type sequence struct {
	folder     *archive.Folder
	after, end uint64                     // those behind after and before end (0: all)
	begin      func(archive.Header) error // is given the header of the segment with which reading begins; nil: nobody wants it

	begun  bool
	first  archive.Header
	number int            // of the segment in hand
	last   journal.Anchor // the newest event that was read, in this segment or the one before
	head   archive.Acknowledgement
}

// read gives the events to use until that has enough.
func (q *sequence) read(ctx context.Context, use func(*journal.Event) error) error {
	from := q.after
	head, headErr, err := q.folder.Acknowledged()
	if err != nil {
		return err
	}
	q.head = head
	err = q.folder.Walk(ctx, q.after, func(_ archive.Part, s archive.Source, h archive.Header) error { return q.segment(ctx, s, h, use) })
	var gap *archive.MissingError
	switch {
	case errors.As(err, &gap):
		return &journal.DamagedError{Seq: q.after + 1, Err: gap}
	case errors.Is(err, errEnough):
		return nil
	case errors.Is(err, errPast):
		err = nil
	}
	if err == nil && q.begun {
		err = q.folder.Ending(ctx, q.head, q.end)
	}
	if err == nil && from == 0 && q.begun {
		err = q.folder.Beginning(ctx, q.first)
	}
	if err == nil {
		err = headErr
	}
	if err == nil {
		err = q.folder.CheckSchema(ctx)
	}
	return err
}

// segment reads what is wanted of a segment.
func (q *sequence) segment(ctx context.Context, s archive.Source, h archive.Header, use func(*journal.Event) error) error {
	past := q.end > 0 && h.First >= q.end
	if past && q.begun {
		return errPast
	}
	if err := q.enter(h); err != nil {
		return err
	}
	if past {
		return errPast
	}
	start := archive.From{After: h.First - 1, Previous: h.Opening()}
	if q.after >= h.First {
		before, err := archive.RecordAt(ctx, s, q.after)
		if err != nil {
			return err
		}
		if before == nil {
			if last, _, err := s.End(ctx); err != nil || last < q.after {
				return err // nothing that is wanted is there yet
			}
			return &journal.DamagedError{Seq: q.after, Detail: "it is missing"}
		}
		start = archive.From{After: q.after, Previous: before.Hash}
		q.last = journal.Anchor{Seq: q.after, Hash: before.Hash}
	}
	for page, err := range archive.Verified(ctx, s, start.After, q.end, start) {
		if err != nil {
			return err
		}
		for _, stretch := range page.Stretches {
			if len(stretch.Faults) > 0 {
				return stretch.Faults[0].Damage()
			}
			for i := range stretch.Events {
				e := &stretch.Events[i]
				q.after, q.last = e.Seq, journal.Anchor{Seq: e.Seq, Hash: e.Hash}
				if e.Seq == q.head.Seq && e.Hash != q.head.Hash {
					return &journal.DamagedError{Seq: e.Seq, Detail: archive.DetailHeadDiffer}
				}
				if err := use(e); err != nil {
					return err
				}
			}
		}
	}
	if b, sealed := s.Bounds(); sealed && q.end == 0 && (b.Last != q.after || b.Hash != q.last.Hash) {
		return &journal.DamagedError{Seq: q.after + 1, Detail: fmt.Sprintf("segment %d was sealed with event %d as its last, and holds %d", h.Number, b.Last, q.after)}
	}
	return nil
}

// enter compares a segment's header with what was read before it.
func (q *sequence) enter(h archive.Header) error {
	if !q.begun {
		q.begun, q.first, q.number = true, h, h.Number
		if h.Number == 1 && h.First != 1 {
			return &journal.DamagedError{Seq: 1, Detail: "it is missing"}
		}
		q.after = max(q.after, h.First-1)
		if q.begin != nil {
			return q.begin(h)
		}
		return nil
	}
	before := q.number
	q.number = h.Number
	switch {
	case h.First > q.after+1 && h.Number > before+1: // else walk had said that segments are missing
		return fmt.Errorf("events %d to %d were removed while they were to be read", q.after+1, h.First-1)
	case h.First > q.after+1:
		return &journal.DamagedError{Seq: q.after + 1, Detail: fmt.Sprintf("it is missing; segment %d begins with event %d", h.Number, h.First)}
	case h.First == q.after+1 && q.last.Seq == q.after && h.Previous != q.last.Hash:
		return &journal.DamagedError{Seq: h.First, Detail: fmt.Sprintf("segment %d does not follow the one before it", h.Number)}
	}
	return nil
}

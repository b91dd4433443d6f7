package replay

import (
	"context"
	"errors"
	"fmt"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/segment"
)

// Readers verify what they read: that it is what the hashes were made of, that nothing is missing
// in it, that segments go on from each other, and that it ends where the head file says. What was
// given before an error is sound in that sense; that all of it was rewritten only Audit tells, with
// anchors.

// sequence reads events one after the other.
type sequence struct {
	folder     *folder.Folder
	after, end uint64                     // those behind after and before end (0: all)
	begin      func(segment.Header) error // is given the header of the segment with which reading begins; nil: nobody wants it

	begun  bool
	first  segment.Header
	number int            // of the segment in hand
	last   journal.Anchor // the newest event that was read, in this segment or the one before
	head   folder.Acknowledgement
}

// read gives the events to use until that has enough.
func (q *sequence) read(ctx context.Context, use func(*journal.Event) error) error {
	from := q.after
	head, headErr, err := q.folder.Acknowledged()
	if err != nil {
		return err
	}
	q.head = head
	err = q.folder.Walk(ctx, q.after, func(_ folder.Part, s segment.Source, h segment.Header) error { return q.segment(ctx, s, h, use) })
	var gap *folder.MissingError
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
func (q *sequence) segment(ctx context.Context, s segment.Source, h segment.Header, use func(*journal.Event) error) error {
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
	start := segment.From{After: h.First - 1, Previous: h.Opening()}
	if q.after >= h.First {
		before, err := segment.RecordAt(ctx, s, q.after)
		if err != nil {
			return err
		}
		if before == nil {
			if last, _, err := s.End(ctx); err != nil || last < q.after {
				return err // nothing that is wanted is there yet
			}
			return &journal.DamagedError{Seq: q.after, Detail: "it is missing"}
		}
		start = segment.From{After: q.after, Previous: before.Hash}
		q.last = journal.Anchor{Seq: q.after, Hash: before.Hash}
	}
	for page, err := range segment.Verified(ctx, s, start.After, q.end, start) {
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
					return &journal.DamagedError{Seq: e.Seq, Detail: folder.DetailHeadDiffer}
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
func (q *sequence) enter(h segment.Header) error {
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

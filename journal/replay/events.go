package replay

import (
	"context"
	"errors"
	"fmt"

	"jobd/journal"
	"jobd/journal/archive"
)

// errEnough ends a walk early: nobody wants more, or nothing more is selected.
var errEnough = errors.New("enough")

// Read gives decoded and verified events to yield until it has enough, with their output. Kinds are
// looked at only where a job is selected, whose events are found by an index.
func (r *Reader) Read(ctx context.Context, sel archive.Selection, yield func(journal.Event) bool) error {
	q := &sequence{folder: r.folder, sel: sel}
	return q.read(ctx, func(e *journal.Event) error {
		if !yield(*e) {
			return errEnough
		}
		return nil
	})
}

// sequence reads the selected events one after the other, and verifies what it reads: that it is
// what the hashes were made of, that nothing is missing in it, that segments go on from each other,
// and that it ends where the head file says. What was given before an error is sound in that sense;
// that all of it was rewritten only package verify tells, with anchors.
type sequence struct {
	folder *archive.Folder
	sel    archive.Selection // After moves on with what was read
	state  *journal.State    // folds the events, from the checkpoint on with which reading begins; nil: nobody wants it

	number int          // of the segment in hand; 0: none
	hash   journal.Hash // of the event sel.After, where it was read
	head   archive.Acknowledgement
}

// read gives the events to use until that has enough.
func (q *sequence) read(ctx context.Context, use func(*journal.Event) error) (err error) {
	if q.head, err = archive.ReadHead(q.folder.Dir); err != nil {
		return err
	}
	err = q.folder.Walk(ctx, q.sel.After, func(s archive.Source, h archive.Header) error {
		return q.segment(ctx, s, h, use)
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err == nil && q.number == 0:
		return q.head.Damage
	case err == nil:
		_, err = q.folder.Ending(ctx, q.head, q.sel.End)
	}
	return err
}

// segment reads what is wanted of a segment.
func (q *sequence) segment(ctx context.Context, s archive.Source, h archive.Header, use func(*journal.Event) error) error {
	past := q.sel.End > 0 && h.First >= q.sel.End
	if past && q.number > 0 {
		return errEnough
	}
	if err := q.enter(h); err != nil {
		return err
	}
	if past {
		return errEnough
	}
	last, hash, err := s.End(ctx)
	if err != nil || last < q.sel.After {
		return err // nothing that is wanted is there yet
	}
	start := archive.From{After: h.First - 1}
	if q.sel.After < h.First {
		start.Previous = h.Opening()
	} else {
		before, err := archive.RecordAt(ctx, s, q.sel.After, true)
		if archive.IsDamage(err) { // of output, perhaps
			before, err = archive.RecordAt(ctx, s, q.sel.After, false)
		}
		if err != nil {
			return err
		}
		if before == nil {
			return &journal.DamagedError{Seq: q.sel.After, Detail: "it is missing"}
		}
		q.hash = before.Hash
		start = archive.From{After: q.sel.After, Previous: before.Hash}
	}
	sel := q.sel
	sel.After = start.After
	if sel.Job != 0 && last > 0 && (sel.End == 0 || sel.End > last) {
		sel.End = last + 1 // what is appended from now on is read when the segment is looked at again
	}
	for page, err := range archive.Verified(ctx, s, sel, start) {
		if err != nil {
			return err
		}
		for i := range page.Events {
			e := &page.Events[i]
			q.sel.After, q.hash = e.Seq, e.Hash
			if e.Seq == q.head.Seq && e.Hash != q.head.Hash {
				return &journal.DamagedError{Seq: e.Seq, Detail: archive.DetailHeadDiffer}
			}
			if q.state != nil {
				if err := q.state.Apply(*e); err != nil {
					return &journal.DamagedError{Seq: e.Seq, Err: err}
				}
			}
			if e.Payload == nil { // it is not wanted
				continue
			}
			if err := use(e); err != nil {
				return err
			}
		}
		if page.Damage != nil {
			return page.Damage
		}
	}
	if sel.Job != 0 && last > q.sel.After {
		q.sel.After, q.hash = last, hash
	}
	if _, sealed := s.Bounds(); sealed && q.sel.End == 0 && (last != q.sel.After || hash != q.hash) {
		return &journal.DamagedError{
			Seq: q.sel.After + 1, Detail: fmt.Sprintf("segment %d was sealed with event %d as its last, and holds %d", h.Number, last, q.sel.After),
		}
	}
	return nil
}

// enter compares a segment's header with what was read before it.
func (q *sequence) enter(h archive.Header) error {
	before, after := q.number, q.sel.After
	q.number = h.Number
	switch {
	case before == 0 && h.Number == 1 && h.First != 1:
		return &journal.DamagedError{Seq: 1, Detail: "it is missing"}
	case before == 0:
		q.sel.After = max(after, h.First-1)
		q.hash = h.Previous
		return q.fold(h)
	case h.Number > before+1:
		overtaken, err := q.folder.Overtaken(before)
		if err == nil && !overtaken {
			missing := &archive.MissingError{First: before + 1, Last: h.Number - 1}
			err = &journal.DamagedError{Seq: after + 1, Err: missing}
		}
		if err != nil {
			return err
		}
		if h.First > after+1 {
			return fmt.Errorf("events %d to %d were removed before they were read", after+1, h.First-1)
		}
	case h.First > after+1:
		return &journal.DamagedError{Seq: after + 1, Detail: fmt.Sprintf("it is missing; segment %d begins with event %d", h.Number, h.First)}
	}
	if h.First == after+1 && h.Previous != q.hash {
		return &journal.DamagedError{Seq: h.First, Detail: fmt.Sprintf("segment %d does not follow the one before it", h.Number)}
	}
	return nil
}

// fold begins the state with what held before a segment.
func (q *sequence) fold(h archive.Header) error {
	if q.state == nil {
		return nil
	}
	before, err := h.State()
	if err == nil {
		before.KeepEnded = q.state.KeepEnded
		*q.state = *before
	}
	return err
}

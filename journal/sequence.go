package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Readers verify what they read: that it is what the hashes were made of, that nothing is missing in it, that segments go on
// from each other, and that it ends where the head file says. What was given before an error is sound in that sense; that all of it
// was rewritten only Audit tells, with anchors.

// sequence reads events one after the other.
type sequence struct {
	reader     *Reader
	after, end uint64             // those behind after and before end (0: all)
	begin      func(header) error // is given the header of the segment with which reading begins; nil: nobody wants it

	begun  bool
	first  header
	number int    // of the segment in hand
	last   Anchor // the newest event that was read, in this segment or the one before
	head   acknowledgement
}

// read gives the events to use until that has enough.
func (q *sequence) read(ctx context.Context, use func(*Event) error) error {
	from := q.after
	head, headErr, err := q.reader.acknowledged()
	if err != nil {
		return err
	}
	q.head = head
	err = q.reader.walk(ctx, q.after, func(_ part, s source, h header) error { return q.segment(ctx, s, h, use) })
	var gap *missingSegment
	switch {
	case errors.As(err, &gap):
		return &DamagedError{Seq: q.after + 1, Err: gap}
	case errors.Is(err, errEnough):
		return nil
	case errors.Is(err, errPast):
		err = nil
	}
	if err == nil && q.begun {
		err = q.reader.ending(ctx, q.head, q.end)
	}
	if err == nil && from == 0 && q.begun {
		err = q.reader.beginning(ctx, q.first)
	}
	if err == nil {
		err = headErr
	}
	if err == nil {
		err = q.reader.checkSchema(ctx)
	}
	return err
}

// segment reads what is wanted of a segment.
func (q *sequence) segment(ctx context.Context, s source, h header, use func(*Event) error) error {
	past := q.end > 0 && h.first >= q.end
	if past && q.begun {
		return errPast
	}
	if err := q.enter(h); err != nil {
		return err
	}
	if past {
		return errPast
	}
	from := linked{after: h.first - 1, previous: h.opening()}
	if q.after >= h.first {
		before, err := recordAt(ctx, s, q.after)
		if err != nil {
			return err
		}
		if before == nil {
			if last, _, err := s.end(ctx); err != nil || last < q.after {
				return err // nothing that is wanted is there yet
			}
			return &DamagedError{Seq: q.after, Detail: "it is missing"}
		}
		from = linked{after: q.after, previous: before.hash}
		q.last = Anchor{q.after, before.hash}
	}
	for page, err := range q.reader.verified(ctx, s, from.after, q.end, from) {
		if err != nil {
			return err
		}
		for _, stretch := range page.stretches {
			if len(stretch.faults) > 0 {
				return stretch.faults[0].error()
			}
			for i := range stretch.events {
				e := &stretch.events[i]
				q.after, q.last = e.Seq, Anchor{e.Seq, e.Hash}
				if e.Seq == q.head.seq && e.Hash != q.head.hash {
					return &DamagedError{Seq: e.Seq, Detail: detailHeadDiffer}
				}
				if err := use(e); err != nil {
					return err
				}
			}
		}
	}
	if file, ok := s.(*sealed); ok && q.end == 0 && (file.trailer.Last != q.after || file.trailer.Hash != q.last.Hash) {
		return &DamagedError{Seq: q.after + 1, Detail: fmt.Sprintf("segment %d was sealed with event %d as its last, and holds %d", h.number, file.trailer.Last, q.after)}
	}
	return nil
}

// enter compares a segment's header with what was read before it.
func (q *sequence) enter(h header) error {
	if !q.begun {
		q.begun, q.first, q.number = true, h, h.number
		if h.number == 1 && h.first != 1 {
			return &DamagedError{Seq: 1, Detail: "it is missing"}
		}
		q.after = max(q.after, h.first-1)
		if q.begin != nil {
			return q.begin(h)
		}
		return nil
	}
	before := q.number
	q.number = h.number
	switch {
	case h.first > q.after+1 && h.number > before+1: // else walk had said that segments are missing
		return fmt.Errorf("events %d to %d were removed while they were to be read", q.after+1, h.first-1)
	case h.first > q.after+1:
		return &DamagedError{Seq: q.after + 1, Detail: fmt.Sprintf("it is missing; segment %d begins with event %d", h.number, h.first)}
	case h.first == q.after+1 && q.last.Seq == q.after && h.previous != q.last.Hash:
		return &DamagedError{Seq: h.first, Detail: fmt.Sprintf("segment %d does not follow the one before it", h.number)}
	}
	return nil
}

// checkSchema looks whether the newest segment's database is as it was made.
func (r *Reader) checkSchema(ctx context.Context) error {
	_, err := r.settled(ctx)
	return err
}

// newestDatabase is the path of the newest segment where that is not sealed; else "".
func (r *Reader) newestDatabase() (string, error) {
	parts, err := list(r.dir)
	if err != nil || len(parts) == 0 || parts[len(parts)-1].sealed {
		return "", err
	}
	return parts[len(parts)-1].path, nil
}

// beginning tells whether retention has removed what is missing before a header, which is the oldest; else that is damage.
func (r *Reader) beginning(ctx context.Context, oldest header) error {
	if oldest.number == 1 {
		return nil
	}
	removal, n, err := r.removal(ctx, oldest)
	if err != nil {
		return err
	}
	v := &verifier{reader: r, removal: removal, notes: n.notes, live: n.live, oldest: oldest, progress: progress{state: &State{}}}
	v.atBeginning()
	return v.problem()
}

type noted struct {
	notes notes
	live  bool
}

// removal is what the history says of retention: the newest segment's checkpoint, and, where that does not explain what
// the history begins with, the events behind it.
func (r *Reader) removal(ctx context.Context, oldest header) (removal *Removal, n noted, err error) {
	for range maxLooks {
		removal, n, err = r.lookForRemoval(ctx, oldest)
		if !errors.Is(err, fs.ErrNotExist) { // else a segment was sealed while it was looked at
			break
		}
	}
	return removal, n, err
}

func (r *Reader) lookForRemoval(ctx context.Context, oldest header) (removal *Removal, n noted, err error) {
	if n.notes, n.live, err = r.notes(ctx); err != nil && !isDamage(err) {
		return nil, n, err
	}
	parts, err := r.present(ctx)
	if err != nil {
		return nil, n, err
	}
	for _, p := range slices.Backward(parts) {
		err = r.visit(ctx, p, 0, func(_ part, s source, h header) error {
			state, err := h.state()
			if err != nil {
				return err
			}
			removal = state.Removed
			if h.number == oldest.number && removal == nil || removal.segment() < oldest.number-1 {
				for page, err := range s.records(ctx, selection{kinds: []Kind{KindRetention}}) {
					if err != nil {
						return err
					}
					for i := range page {
						payload, err := payloadOf[Retention](page[i].payload)
						if err != nil {
							return err
						}
						removal = removal.after(payload)
					}
				}
			}
			return nil
		})
		if !isDamage(err) {
			break
		}
	}
	return removal, n, err
}

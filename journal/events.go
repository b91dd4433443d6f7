package journal

import (
	"context"
	"errors"
	"slices"
)

// events gives decoded and verified events to yield until it has enough.
func (r *Reader) events(ctx context.Context, sel selection, m *matcher, yield func(Event) bool) error {
	if sel.job != 0 {
		return r.jobEvents(ctx, sel, m, yield)
	}
	q := &sequence{reader: r, after: sel.after, end: sel.end}
	return q.read(ctx, func(e *Event) error {
		if len(sel.kinds) > 0 && !slices.Contains(sel.kinds, e.Kind()) {
			return nil
		}
		if ok, err := m.matchesEvent(ctx, e); err != nil || !ok {
			return err
		}
		if !yield(withOutput(*e, sel.output)) {
			return errEnough
		}
		return nil
	})
}

// withOutput is an event with its output or without.
func withOutput(e Event, wanted bool) Event {
	if done, ok := e.Payload.(Done); ok && !wanted {
		done.Stdout.Kept, done.Stderr.Kept = nil, nil
		e.Payload = done
	}
	return e
}

// jobEvents gives the events of one job, which are found by an index: each is verified with the hash of the one before it.
func (r *Reader) jobEvents(ctx context.Context, sel selection, m *matcher, yield func(Event) bool) error {
	output, from := sel.output, sel.after
	sel.output = true
	var p payloads
	var oldest *header
	head, headErr, err := r.acknowledged()
	if err != nil {
		return err
	}
	err = r.walk(ctx, sel.after, func(_ part, s source, h header) error {
		if sel.end > 0 && h.first >= sel.end {
			return errPast
		}
		if oldest == nil {
			oldest = &h
		}
		before := Anchor{h.first - 1, h.opening()}
		for page, err := range s.records(ctx, sel) {
			for i := range page {
				rec := &page[i]
				if err := rec.follows(ctx, s, before); err != nil {
					return err
				}
				before = Anchor{rec.seq, rec.hash}
				sel.after = rec.seq
				if ok, err := m.matches(ctx, rec); err != nil {
					return err
				} else if !ok {
					continue
				}
				e, err := rec.decode(&p)
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
		err = r.ending(ctx, head, sel.end)
	}
	if err == nil {
		err = headErr
	}
	if err == nil {
		err = r.checkSchema(ctx)
	}
	if err == nil && from == 0 && oldest != nil {
		err = r.beginning(ctx, *oldest)
	}
	return err
}

// follows tells whether a record's hash is made of its content and the record before it, whose number and hash are known or else
// are looked up.
func (rec *record) follows(ctx context.Context, s source, before Anchor) error {
	if rec.seq != before.Seq+1 {
		previous, err := recordAt(ctx, s, rec.seq-1)
		if err != nil {
			return err
		}
		if previous == nil {
			return &DamagedError{Seq: rec.seq - 1, Detail: "it is missing"}
		}
		before = Anchor{previous.seq, previous.hash}
	}
	if f := rec.judge(linked{previous: before.Hash}, nil); f != nil {
		return f.error()
	}
	return nil
}

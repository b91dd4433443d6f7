package replay

import (
	"context"
	"errors"
	"slices"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/segment"
)

// Read gives decoded and verified events to yield until it has enough.
func (r *Reader) Read(ctx context.Context, sel segment.Selection, m *matcher, yield func(journal.Event) bool) error {
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
func (r *Reader) jobEvents(ctx context.Context, sel segment.Selection, m *matcher, yield func(journal.Event) bool) error {
	output, from := sel.Output, sel.After
	sel.Output = true
	var p segment.Decoder
	var oldest *segment.Header
	head, headErr, err := r.folder.Acknowledged()
	if err != nil {
		return err
	}
	err = r.folder.Walk(ctx, sel.After, func(_ folder.Part, s segment.Source, h segment.Header) error {
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
func follows(ctx context.Context, s segment.Source, rec *segment.Record, before journal.Anchor) error {
	if rec.Seq != before.Seq+1 {
		previous, err := segment.RecordAt(ctx, s, rec.Seq-1)
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

package replay

import (
	"context"
	"errors"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/segment"
)

// Kept says what retention has removed; nil where the history is whole, from its first event on.
func (r *Reader) Kept(ctx context.Context) (*journal.RemovedError, error) {
	removed, err := r.kept(ctx)
	if err != nil {
		return nil, r.folder.Failed("read", err)
	}
	return removed, nil
}

func (r *Reader) kept(ctx context.Context) (removed *journal.RemovedError, err error) {
	err = r.folder.Walk(ctx, 0, func(_ folder.Part, _ segment.Source, h segment.Header) error {
		if h.First > 1 {
			before, err := h.State()
			if err != nil {
				return err
			}
			removed = &journal.RemovedError{First: h.First, Since: before.Time}
		}
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return removed, err
}

// reaches fails with a *RemovedError where the event behind seq is not kept any more.
func (r *Reader) reaches(ctx context.Context, seq uint64) error {
	if number, err := r.folder.BeginsBefore(ctx, seq+1); number > 0 || err != nil {
		return err
	}
	removed, err := r.kept(ctx)
	if err == nil && removed != nil && seq+1 < removed.First {
		err = removed
	}
	return err
}

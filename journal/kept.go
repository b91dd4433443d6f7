package journal

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// RemovedError says that what was asked for was removed by retention.
type RemovedError struct {
	First uint64    // the oldest event that is kept
	Since time.Time // when the newest event happened that is not
}

// Error implements error.
func (e *RemovedError) Error() string {
	return fmt.Sprintf("the history up to %s was removed by retention; it is kept from event %d on", stamp(e.Since), e.First)
}

// Kept says what retention has removed; nil where the history is whole, from its first event on.
func (r *Reader) Kept(ctx context.Context) (*RemovedError, error) {
	removed, err := r.kept(ctx)
	if err != nil {
		return nil, r.failed("read", err)
	}
	return removed, nil
}

func (r *Reader) kept(ctx context.Context) (removed *RemovedError, err error) {
	err = r.walk(ctx, 0, func(_ part, _ source, h header) error {
		if h.first > 1 {
			before, err := h.state()
			if err != nil {
				return err
			}
			removed = &RemovedError{First: h.first, Since: before.Time}
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
	if number, err := r.beginsBefore(ctx, seq+1); number > 0 || err != nil {
		return err
	}
	removed, err := r.kept(ctx)
	if err == nil && removed != nil && seq+1 < removed.First {
		err = removed
	}
	return err
}

// firstOf is the first event of a segment; ok is false where that can't be told.
func (r *Reader) firstOf(ctx context.Context, number int) (first uint64, ok bool) {
	parts, err := r.present(ctx)
	for _, p := range parts {
		if p.number == number && err == nil {
			err = r.visit(ctx, p, 0, func(_ part, _ source, h header) error {
				first = h.first
				return nil
			})
		}
	}
	return first, err == nil && first > 0
}

package journal

import (
	"context"
	"errors"
	"time"
)

// UnderWay gives the jobs that were under way just before a time, by id; before the zero time, and before a time that the
// history does not go back to, those of its first checkpoint. It reads one segment, or two where one is not sealed yet.
func (r *Reader) UnderWay(ctx context.Context, at time.Time) ([]Job, error) {
	state := &State{}
	end, err := uint64(1), error(nil)
	if !at.IsZero() {
		end, err = r.firstAt(ctx, at)
	}
	if err == nil {
		err = r.underWay(ctx, end, state)
	}
	if err != nil {
		return nil, r.failed("replay", err)
	}
	return state.Unfinished(), nil
}

// underWay makes state what it was before the event end, from the newest checkpoint before that on.
func (r *Reader) underWay(ctx context.Context, end uint64, state *State) error {
	first := uint64(0)
	err := r.walk(ctx, end-1, func(_ part, _ source, h header) error {
		first = h.first
		return errEnough
	})
	if first == 0 || !errors.Is(err, errEnough) {
		return err
	}
	q := &sequence{reader: r, after: first - 1, end: max(end, first)}
	q.begin = func(h header) error {
		before, err := h.state()
		if err == nil {
			*state = *before
		}
		return err
	}
	return q.read(ctx, func(e *Event) error {
		if err := state.Apply(*e); err != nil {
			return &DamagedError{Seq: e.Seq, Err: err}
		}
		return nil
	})
}

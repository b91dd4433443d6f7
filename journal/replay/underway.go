package replay

import (
	"context"
	"errors"
	"time"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/segment"
)

// UnderWay gives the jobs that were under way just before a time, by id; before the zero time, and
// before a time that the history does not go back to, those of its first checkpoint. It reads one
// segment, or two where one is not sealed yet.
func (r *Reader) UnderWay(ctx context.Context, at time.Time) ([]journal.Job, error) {
	state := &journal.State{}
	end, err := uint64(1), error(nil)
	if !at.IsZero() {
		end, err = r.FirstAt(ctx, at)
	}
	if err == nil {
		err = r.underWay(ctx, end, state)
	}
	if err != nil {
		return nil, r.folder.Failed("replay", err)
	}
	return state.Unfinished(), nil
}

// underWay makes state what it was before the event end, from the newest checkpoint before that on.
func (r *Reader) underWay(ctx context.Context, end uint64, state *journal.State) error {
	first := uint64(0)
	err := r.folder.Walk(ctx, end-1, func(_ folder.Part, _ segment.Source, h segment.Header) error {
		first = h.First
		return errEnough
	})
	if first == 0 || !errors.Is(err, errEnough) {
		return err
	}
	q := &sequence{folder: r.folder, after: first - 1, end: max(end, first)}
	q.begin = func(h segment.Header) error {
		before, err := h.State()
		if err == nil {
			*state = *before
		}
		return err
	}
	return q.read(ctx, func(e *journal.Event) error {
		if err := state.Apply(*e); err != nil {
			return &journal.DamagedError{Seq: e.Seq, Err: err}
		}
		return nil
	})
}

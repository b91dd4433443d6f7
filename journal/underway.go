package journal

import (
	"context"
	"errors"
	"time"
)

// UnderWay gives the jobs that were under way just before a time, by id; before the zero time, and before a time that the
// history does not go back to, those of its first checkpoint. It reads one segment, or two where one is not sealed yet.
func (r *Reader) UnderWay(ctx context.Context, at time.Time) ([]Job, error) {
	var state *State
	end, err := uint64(1), error(nil)
	if !at.IsZero() {
		end, err = r.firstAt(ctx, at)
	}
	if err == nil {
		err = r.walk(ctx, end-1, func(_ part, s source, h header) error {
			if state != nil && h.first > end {
				return errEnough
			}
			if state, err = h.state(); err != nil || state.Seq+1 >= end {
				return errors.Join(err, errEnough)
			}
			return r.apply(ctx, s, selection{after: state.Seq, end: end}, state, func(Event) bool { return true })
		})
	}
	if errors.Is(err, errEnough) && state != nil {
		err = nil
	}
	if err != nil {
		return nil, r.failed("replay", err)
	}
	if state == nil {
		return nil, nil
	}
	return state.Unfinished(), nil
}

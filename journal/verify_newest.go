package journal

import (
	"context"
	"fmt"
	"log/slog"
)

// runNewest verifies all that a worker relies on: the newest segment, from its waypoint on where there is one, that it follows
// the one before it, head file and position. The time it takes is bounded by the distance of waypoints.
func (v *verifier) runNewest(ctx context.Context, parts []part, log *slog.Logger) (err error) {
	if v.head, err = readHead(v.reader.dir); err != nil {
		return err
	}
	if v.notes, v.live, err = v.reader.notes(ctx); err != nil {
		return err
	}
	newest := parts[len(parts)-1]
	s, err := newest.open(v.reader.decoder)
	if err != nil {
		return err
	}
	defer s.close()
	h, err := s.header(ctx)
	if err != nil {
		return err
	}
	if h.number != newest.number {
		return &DamagedError{Seq: h.first, Detail: fmt.Sprintf("file %s holds segment %d", newest.path, h.number)}
	}
	if err := v.checkBefore(ctx, parts, h); err != nil {
		return err
	}
	if v.head.found {
		v.expected = []expected{{Anchor{v.head.seq, v.head.hash}, true}}
	}
	v.number = h.number // the header is what we begin with
	if err := v.newestEvents(ctx, s, h, log); err != nil {
		return err
	}
	return v.end()
}

// newestEvents verifies the newest segment's events from its waypoint on; all, where there is none that fits.
func (v *verifier) newestEvents(ctx context.Context, s source, h header, log *slog.Logger) error {
	w, err := readWaypoint(v.reader.dir)
	if w == nil && err == nil || w != nil && w.Segment < h.number {
		return v.events(ctx, s, h)
	}
	var state *State
	if err == nil {
		state, err = w.fits(ctx, s, h)
	}
	if state != nil {
		return v.eventsFrom(ctx, s, h, state)
	}
	log.Warn("the journal's waypoint file does not fit; verifying all of the newest segment", "error", err)
	v.unfit = true
	return v.events(ctx, s, h)
}

// eventsFrom verifies the events behind a state, which is a waypoint's.
func (v *verifier) eventsFrom(ctx context.Context, s source, h header, state *State) error {
	opening, err := recordAt(ctx, s, h.first)
	if err != nil {
		return err
	}
	if opening == nil {
		return &DamagedError{Seq: h.first, Detail: "it is missing"}
	}
	v.header, v.begun, v.state = h, moment(opening.micros), state
	if err := v.compare(Anchor{state.Seq, state.Hash}); err != nil {
		return err
	}
	return v.rest(v.reader.verified(ctx, s, state.Seq, linked{after: state.Seq, previous: state.Hash}))
}

// checkBefore compares the newest segment's header with the end of the segment before it, where that is kept.
func (v *verifier) checkBefore(ctx context.Context, parts []part, h header) error {
	if h.number == 1 {
		return agrees(h, &State{})
	}
	if len(parts) < 2 || parts[len(parts)-2].number != h.number-1 {
		return nil
	}
	return v.reader.visit(ctx, parts[len(parts)-2], 0, func(_ part, s source, _ header) error {
		seq, hash, err := s.end(ctx)
		if err == nil && (seq+1 != h.first || hash != h.previous) {
			err = &DamagedError{Seq: h.first, Detail: fmt.Sprintf("segment %d does not follow the one before it, which ends with event %d", h.number, seq)}
		}
		return err
	})
}

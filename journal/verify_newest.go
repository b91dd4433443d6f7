package journal

import (
	"context"
	"fmt"
	"log/slog"
)

// fresh takes a segment's header as it is, whatever was before it.
func (v *verifier) fresh(h header) error {
	state, err := h.state()
	if err != nil {
		return err
	}
	v.links.next, v.state, v.last, v.other, v.unknown = h.first, state, h.previous, h.previous, false
	v.oldest, v.number = h, h.number-1
	return nil
}

// sealing verifies one segment by itself, as whoever seals it does. The state is that after it.
func (v *verifier) sealing(ctx context.Context, s source, h header) error {
	err := v.fresh(h)
	if err == nil {
		err = v.segment(ctx, s, h, 0)
	}
	if err == nil {
		err = v.problem()
	}
	return err
}

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
	if err := v.fresh(h); err != nil {
		return err
	}
	if err := v.newestEvents(ctx, s, h, log); err != nil {
		return err
	}
	v.atEnd()
	return v.problem()
}

// newestEvents verifies the newest segment's events from its waypoint on; all, where there is none that fits.
func (v *verifier) newestEvents(ctx context.Context, s source, h header, log *slog.Logger) error {
	w, err := readWaypoint(v.reader.dir)
	if w == nil && err == nil || w != nil && w.Segment < h.number {
		return v.events(ctx, s, h, 0)
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
	return v.events(ctx, s, h, 0)
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
	v.links.next, v.last, v.other = state.Seq+1, state.Hash, state.Hash
	v.compare(Anchor{state.Seq, state.Hash})
	return v.rest(v.reader.verified(ctx, s, state.Seq, 0, linked{after: state.Seq, previous: state.Hash}))
}

// checkBefore compares the newest segment's header with the end of the segment before it, where that is kept.
func (v *verifier) checkBefore(ctx context.Context, parts []part, h header) error {
	if h.number == 1 {
		return agrees(h, firstState(h))
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

// firstState is what a journal begins with. Older versions did not journal what retention removes.
func firstState(h header) *State {
	if state, err := h.state(); err == nil && state.Removed != nil && *state.Removed == (Removal{}) {
		return &State{Removed: state.Removed}
	}
	return &State{}
}

// agrees compares a header with the state that the events before it give.
func agrees(h header, s *State) error {
	checkpoint, err := encodeCheckpoint(s)
	switch {
	case err != nil:
		return err
	case h.first > s.Seq+1:
		return &DamagedError{Seq: s.Seq + 1, Detail: fmt.Sprintf("it is missing; segment %d begins with event %d", h.number, h.first)}
	case h.first <= s.Seq:
		return &DamagedError{Seq: h.first, Detail: fmt.Sprintf("it is there twice; segment %d begins with it, the one before ends with %d", h.number, s.Seq)}
	case h.previous != s.Hash:
		return &DamagedError{Seq: h.first, Detail: fmt.Sprintf("segment %d does not follow the one before it", h.number)}
	case string(checkpoint) != string(h.checkpoint):
		return &DamagedError{Seq: h.first, Detail: fmt.Sprintf("the checkpoint of segment %d disagrees with the events before it", h.number)}
	}
	return nil
}

package verify

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/segment"
)

// fresh takes a segment's header as it is, whatever was before it.
func (v *verifier) fresh(h segment.Header) error {
	state, err := h.State()
	if err != nil {
		return err
	}
	v.links.next, v.state, v.last, v.other, v.unknown = h.First, state, h.Previous, h.Previous, false
	v.oldest, v.number = h, h.Number-1
	return nil
}

// Segment verifies one segment by itself, as whoever seals it does, and gives the state after it.
// Progress is called now and then.
func Segment(ctx context.Context, f *folder.Folder, s segment.Source, h segment.Header, progress func(seq uint64)) (*journal.State, error) {
	v := newVerifier(f, against{progress: progress})
	err := v.fresh(h)
	if err == nil {
		err = v.segment(ctx, s, h, 0)
	}
	if err == nil {
		err = v.problem()
	}
	return v.state, err
}

// Start is what a worker goes on from.
type Start struct {
	Header segment.Header // of the newest segment
	State  *journal.State // after its newest event
	Notes  segment.Notes  // what it keeps beside the events
	Begun  time.Time      // of its first event; zero: there is none
	Weight int            // of the events behind its waypoint
	Unfit  bool           // there is a waypoint that could not be gone on from
}

// Newest verifies what a worker relies on, see runNewest, and gives what it goes on from. What is
// odd, and no damage, goes to the log.
func Newest(ctx context.Context, f *folder.Folder, parts []folder.Part, log *slog.Logger) (Start, error) {
	v := newVerifier(f, against{})
	if err := v.runNewest(ctx, parts, log); err != nil {
		return Start{}, err
	}
	return Start{v.header, v.state, v.notes, v.begun, v.weight, v.unfit}, nil
}

// runNewest verifies all that a worker relies on: the newest segment, from its waypoint on where
// there is one, that it follows the one before it, head file and position. The time it takes is
// bounded by the distance of waypoints.
func (v *verifier) runNewest(ctx context.Context, parts []folder.Part, log *slog.Logger) (err error) {
	if v.head, err = folder.ReadHead(v.folder.Dir); err != nil {
		return err
	}
	if v.notes, v.live, err = v.folder.Notes(ctx); err != nil {
		return err
	}
	newest := parts[len(parts)-1]
	s, err := v.folder.Open(newest)
	if err != nil {
		return err
	}
	defer s.Close()
	h, err := s.Header(ctx)
	if err != nil {
		return err
	}
	if h.Number != newest.Number {
		return &journal.DamagedError{Seq: h.First, Detail: fmt.Sprintf("file %s holds segment %d", newest.Path, h.Number)}
	}
	if err := v.checkBefore(ctx, parts, h); err != nil {
		return err
	}
	if v.head.Found {
		v.expected = []expected{{journal.Anchor{Seq: v.head.Seq, Hash: v.head.Hash}, true}}
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

// newestEvents verifies the newest segment's events from its waypoint on; all, where there is none
// that fits.
func (v *verifier) newestEvents(ctx context.Context, s segment.Source, h segment.Header, log *slog.Logger) error {
	w, err := readWaypoint(v.folder.Dir)
	if w == nil && err == nil || w != nil && w.Segment < h.Number {
		return v.events(ctx, s, h, 0)
	}
	var state *journal.State
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
func (v *verifier) eventsFrom(ctx context.Context, s segment.Source, h segment.Header, state *journal.State) error {
	opening, err := segment.RecordAt(ctx, s, h.First)
	if err != nil {
		return err
	}
	if opening == nil {
		return &journal.DamagedError{Seq: h.First, Detail: "it is missing"}
	}
	v.header, v.begun, v.state = h, opening.Time(), state
	v.links.next, v.last, v.other = state.Seq+1, state.Hash, state.Hash
	v.compare(journal.Anchor{Seq: state.Seq, Hash: state.Hash})
	return v.addPages(segment.Verified(ctx, s, state.Seq, 0, segment.From{After: state.Seq, Previous: state.Hash}))
}

// checkBefore compares the newest segment's header with the end of the segment before it, where
// that is kept.
func (v *verifier) checkBefore(ctx context.Context, parts []folder.Part, h segment.Header) error {
	if h.Number == 1 {
		return Agrees(h, firstState(h))
	}
	if len(parts) < 2 || parts[len(parts)-2].Number != h.Number-1 {
		return nil
	}
	return v.folder.Visit(ctx, parts[len(parts)-2], 0, func(_ folder.Part, s segment.Source, _ segment.Header) error {
		seq, hash, err := s.End(ctx)
		if err == nil && (seq+1 != h.First || hash != h.Previous) {
			err = &journal.DamagedError{Seq: h.First, Detail: fmt.Sprintf("segment %d does not follow the one before it, which ends with event %d", h.Number, seq)}
		}
		return err
	})
}

// firstState is what a journal begins with. Older versions did not journal what retention removes.
func firstState(h segment.Header) *journal.State {
	if state, err := h.State(); err == nil && state.Removed != nil && *state.Removed == (journal.Removal{}) {
		return &journal.State{Removed: state.Removed}
	}
	return &journal.State{}
}

// Agrees compares a header with the state that the events before it give.
func Agrees(h segment.Header, s *journal.State) error {
	checkpoint, err := journal.EncodeCheckpoint(s)
	switch {
	case err != nil:
		return err
	case h.First > s.Seq+1:
		return &journal.DamagedError{Seq: s.Seq + 1, Detail: fmt.Sprintf("it is missing; segment %d begins with event %d", h.Number, h.First)}
	case h.First <= s.Seq:
		return &journal.DamagedError{Seq: h.First, Detail: fmt.Sprintf("it is there twice; segment %d begins with it, the one before ends with %d", h.Number, s.Seq)}
	case h.Previous != s.Hash:
		return &journal.DamagedError{Seq: h.First, Detail: fmt.Sprintf("segment %d does not follow the one before it", h.Number)}
	case string(checkpoint) != string(h.Checkpoint):
		return &journal.DamagedError{Seq: h.First, Detail: fmt.Sprintf("the checkpoint of segment %d disagrees with the events before it", h.Number)}
	}
	return nil
}

// Sound verifies what a worker's start would: the newest segment, that it follows the one before
// it, head file and position. It changes nothing, and may be asked while a worker has the journal.
// The time it takes is bounded by the distance of waypoints. A folder without a journal is sound.
func Sound(ctx context.Context, f *folder.Folder) error {
	parts, err := f.Segments(ctx)
	if err == nil && len(parts) > 0 {
		if newest := parts[len(parts)-1]; newest.Sealed {
			err = &journal.DamagedError{Detail: folder.DetailAllSealed}
		} else {
			err = newVerifier(f, against{}).runNewest(ctx, parts, slog.New(slog.DiscardHandler))
		}
	}
	if err != nil {
		return f.Failed("verify", err)
	}
	return nil
}

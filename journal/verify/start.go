package verify

import (
	"context"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
)

// Segment verifies one segment by itself, as sealing does, and that the next one follows it.
func Segment(ctx context.Context, f *archive.Folder, s archive.Source, h, next archive.Header) error {
	v := newVerifier(f)
	if err := v.segment(ctx, s, h); err != nil {
		return err
	}
	return v.beginSegment(next)
}

// Start is what a worker goes on from.
type Start struct {
	Header archive.Header // of the newest segment
	State  *journal.State // after its newest event
	Begun  time.Time      // of its first event; zero: there is none

	Position uint64 // the newest event that the jobs table is known to show
}

// Newest verifies what a worker relies on, see runNewest, and gives what it goes on from.
func Newest(ctx context.Context, f *archive.Folder, parts []archive.Part) (Start, error) {
	v := newVerifier(f)
	if err := v.runNewest(ctx, parts); err != nil {
		return Start{}, err
	}
	return Start{v.header, v.state, v.begun, v.position}, nil
}

// runNewest verifies all that a worker relies on: the newest segment, that it follows the one before
// it, head file and position. The time it takes is bounded by the size of a segment.
func (v *verifier) runNewest(ctx context.Context, parts []archive.Part) error {
	newest := parts[len(parts)-1]
	if newest.Sealed {
		return &journal.DamagedError{Detail: archive.DetailAllSealed}
	}
	err := v.prepare(ctx)
	if err == nil {
		err = v.folder.Visit(ctx, newest, 0, func(s archive.Source, h archive.Header) error {
			if err := v.checkBefore(ctx, parts, h); err != nil {
				return err
			}
			return v.events(ctx, s, h)
		})
	}
	if err != nil {
		return err
	}
	return v.atEnd()
}

// checkBefore lets the newest segment follow the end of the segment before it, where that is kept.
func (v *verifier) checkBefore(ctx context.Context, parts []archive.Part, h archive.Header) error {
	if len(parts) < 2 || parts[len(parts)-2].Number != h.Number-1 {
		return nil
	}
	return v.folder.Visit(ctx, parts[len(parts)-2], 0, func(s archive.Source, before archive.Header) error {
		seq, hash, err := s.End(ctx)
		v.number, v.next, v.last, v.state = before.Number, seq+1, hash, nil
		return err
	})
}

// firstState is what a journal begins with. Older versions did not journal what retention removes.
func firstState(h archive.Header) *journal.State {
	if state, err := h.State(); err == nil && state.Removed != nil && *state.Removed == (journal.Removal{}) {
		return &journal.State{Removed: state.Removed}
	}
	return &journal.State{}
}

// Sound verifies what a worker's start would: the newest segment, that it follows the one before
// it, head file and position. It changes nothing, and may be asked while a worker has the journal.
// The time it takes is bounded by the size of a segment. A folder without a journal is sound.
func Sound(ctx context.Context, f *archive.Folder) error {
	parts, err := f.Segments(ctx)
	if err == nil && len(parts) > 0 {
		err = newVerifier(f).runNewest(ctx, parts)
	}
	return f.Failed("verify", err)
}

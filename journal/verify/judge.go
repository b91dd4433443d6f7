package verify

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
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

// part verifies one segment of a folder.
func (v *verifier) part(ctx context.Context, p archive.Part) error {
	if p.Number > v.number+1 && v.number > 0 {
		if overtaken, err := v.folder.Overtaken(v.number); err != nil {
			return err
		} else if overtaken {
			v.restart()
		}
	}
	again := v.number == p.Number // it was sealed, or followed by another, while we read it
	if again {
		v.progress = v.before
	}
	v.before = v.progress
	v.before.expected = maps.Clone(v.expected)
	s, err := p.Open()
	if err != nil {
		return v.unreadable(p, err)
	}
	defer s.Close()
	if p.Path != v.examined {
		if err := examine(ctx, s); err != nil {
			return err
		}
	}
	h, err := s.Header(ctx)
	if err == nil && h.Number != p.Number {
		err = damaged(0, "file %s holds segment %d", p.Path, h.Number)
	}
	if err != nil {
		return v.unreadable(p, err)
	}
	if again {
		state, err := h.State()
		if err != nil {
			return err
		}
		v.state = state
	}
	return v.segment(ctx, s, h)
}

// examine looks whether a segment's file is what this version makes.
func examine(ctx context.Context, s archive.Source) error {
	_, err := s.Examine(ctx)
	return about(s.Name(), err)
}

// unreadable is the error about a segment of which nothing can be read. Its events are those behind what
// was read before.
func (v *verifier) unreadable(p archive.Part, cause error) error {
	var d *journal.DamagedError
	if !errors.As(archive.Damaged(cause), &d) {
		return cause
	}
	if v.number > 0 && p.Number > v.number+1 {
		return &journal.DamagedError{Seq: v.next, Err: &archive.MissingError{First: v.number + 1, Last: p.Number - 1}}
	}
	known := *d
	if known.Seq = v.next; p.Number == 1 {
		known.Seq = 1
	}
	return about(filepath.Base(p.Path), &known)
}

// segment verifies one segment, from its beginning.
func (v *verifier) segment(ctx context.Context, s archive.Source, h archive.Header) error {
	if err := v.events(ctx, s, h); err != nil {
		return err
	}
	sealing, sealed := s.Bounds()
	if end := v.next - 1; sealed && (sealing.Last != end || sealing.Hash != v.last || sealing.Ended != v.state.Time.UnixMicro()) {
		return about(s.Name(), damaged(end+1, "segment %d was sealed at event %d, but ends at event %d", h.Number, sealing.Last, end))
	}
	if err := s.CheckRest(ctx, v.occurring); err != nil {
		return about(s.Name(), err)
	}
	v.reportProgress()
	return nil
}

// events verifies a segment's header and events.
func (v *verifier) events(ctx context.Context, s archive.Source, h archive.Header) error {
	if err := v.beginSegment(h); err != nil {
		return err
	}
	v.occurring = v.occurring[:0]
	from := archive.From{After: h.First - 1, Previous: h.Opening()}
	for page, err := range archive.Verified(ctx, s, archive.Selection{}, from) {
		if err != nil {
			return err
		}
		for i := range page.Events {
			if err := v.addEvent(&page.Events[i]); err != nil {
				return err
			}
		}
		if page.Damage != nil {
			return page.Damage
		}
		v.occurring = archive.AppendJobs(v.occurring, page.Jobs, page.Index)
		v.reportProgress()
	}
	return nil
}

// beginSegment takes in a segment's header, and compares it with the events before it.
func (v *verifier) beginSegment(h archive.Header) error {
	first := v.number == 0
	if first {
		v.oldest, v.next, v.last = h, h.First, h.Previous
		if h.Number == 1 {
			v.next, v.state, v.last = 1, firstState(h), journal.Hash{}
		}
	}
	if err := v.follows(h, first); err != nil {
		return err
	}
	if err := v.compare(journal.Anchor{Seq: h.First - 1, Hash: h.Previous}); err != nil { // where the event itself is not there
		return err
	}
	v.ends[h.Number] = journal.Anchor{Seq: h.First - 1, Hash: h.Previous}
	err := v.checkpoint(h, first && h.Number > 1 || v.state == nil)
	v.number, v.header = h.Number, h
	return err
}

// follows tells whether a header follows what was verified before it.
func (v *verifier) follows(h archive.Header, first bool) error {
	switch {
	case h.First > v.next && !first && h.Number > v.number+1:
		return &journal.DamagedError{Seq: v.next, Last: h.First - 1, Err: &archive.MissingError{First: v.number + 1, Last: h.Number - 1}}
	case h.First > v.next:
		return damaged(v.next, "it is missing; segment %d begins with event %d", h.Number, h.First)
	case h.First < v.next:
		return damaged(h.First, "it is there twice; segment %d begins with it, the one before ends with %d", h.Number, v.next-1)
	case !first && h.Number != v.number+1:
		return damaged(h.First, "segment %d goes on from segment %d", h.Number, v.number)
	case h.Previous != v.last: // the end of the one before may have been forged
		v.doubtful = true
		return damaged(h.First, "segment %d does not follow the one before it", h.Number)
	}
	return nil
}

// checkpoint compares a header's checkpoint with the state that the events before it give, or goes
// on from it where these are not there.
func (v *verifier) checkpoint(h archive.Header, goesOn bool) error {
	state, err := h.State()
	if err != nil {
		return err
	}
	if state.Removed != nil {
		v.removal = state.Removed
	}
	if goesOn {
		v.state = state
		return nil
	}
	checkpoint, err := journal.EncodeCheckpoint(v.state)
	if err == nil && string(checkpoint) != string(h.Checkpoint) {
		err = damaged(h.First, "the checkpoint of segment %d disagrees with the events before it", h.Number)
	}
	return err
}

// compare compares an event with what is expected of its number.
func (v *verifier) compare(event journal.Anchor) error {
	for _, want := range v.expected[event.Seq] {
		switch {
		case want.Hash != event.Hash && want.head:
			return about(archive.HeadFile, damaged(event.Seq, "it is not the event that was acknowledged under this number"))
		case want.Hash != event.Hash:
			v.doubtful = true
			return damaged(event.Seq, "it is not the event that the anchor knows under this number: the history was rewritten")
		case !want.head:
			v.compared++
			v.proven = max(v.proven, event.Seq)
		}
	}
	delete(v.expected, event.Seq)
	return nil
}

// addEvent takes in the next event, whose hash is right.
func (v *verifier) addEvent(e *journal.Event) error {
	if e.Seq == v.header.First {
		v.begun = e.Time
	}
	if err := v.state.Apply(*e); err != nil {
		return &journal.DamagedError{Seq: e.Seq, Last: e.Seq, Err: err}
	}
	v.next, v.last = e.Seq+1, e.Hash
	if p, ok := e.Payload.(journal.Retention); ok {
		if err := v.addRemoval(e, p); err != nil {
			return err
		}
	}
	return v.compare(journal.Anchor{Seq: e.Seq, Hash: e.Hash})
}

// addRemoval takes in what an event says of retention, which must be true of the segments that are
// still here.
func (v *verifier) addRemoval(e *journal.Event, p journal.Retention) error {
	if end, here := v.ends[p.Last+1]; here && p.Last > 0 && (end.Seq != p.Seq || end.Hash.String() != p.Hash) {
		return damaged(e.Seq, "it says that segment %d ended with event %d; the segment disagrees", p.Last, p.Seq)
	}
	v.removal = v.removal.After(p)
	return nil
}

// atEnd compares the end of the history with what is known of it from elsewhere.
func (v *verifier) atEnd() error {
	end := max(v.next, 1) - 1
	switch {
	case v.live && !v.head.Found && end > 0:
		return &journal.DamagedError{Detail: archive.DetailNoHead}
	case v.head.Found && v.head.Seq > end:
		return damaged(end+1, archive.DetailCut, v.head.Seq, end)
	case !v.live && v.head.Seq <= end && (v.head.Found || archive.UsedByWorker(v.folder.Dir)):
		return &journal.DamagedError{Seq: end + 1, Detail: archive.DetailAllSealed}
	case v.position > end:
		return damaged(end+1, "the jobs table shows event %d, the journal ends at %d", v.position, end)
	case v.newest > v.head.Seq && v.newest > end:
		return damaged(end+1, "an anchor knows event %d, the journal ends at %d", v.newest, end)
	}
	return nil
}

// atBeginning asks whether retention has removed what is not there.
func (v *verifier) atBeginning() error {
	h, r := v.oldest, v.removal
	switch {
	case h.Number <= 1:
		return nil
	case r == nil: // of a version that did not journal what it removed: that is told, and is no damage
		v.unproven, v.removed = h.First-1, h.First-1
		return nil
	case h.Number > r.Segment+1:
		return damaged(r.Seq+1, "the history begins with segment %d, and no event says that retention removed those from %d on", h.Number, r.Segment+1)
	case h.Number == r.Segment+1 && h.Previous != journal.Hash{} && (h.First != r.Seq+1 || h.Previous.String() != r.Hash):
		return damaged(h.First, "segment %d does not follow event %d, which is the newest that retention has removed", h.Number, r.Seq)
	}
	if r.Segment == 0 {
		return nil
	}
	v.removed = min(r.Seq, h.First-1)
	if r.Noted > 0 {
		if v.unproven = v.ends[r.Noted+1].Seq; v.unproven == 0 {
			v.unproven = v.removed
		}
	}
	return nil
}

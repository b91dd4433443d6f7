package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Audit says what a verification compares with and whom it tells how far it is.
type Audit struct {
	Anchors  []Anchor         // heads noted earlier and kept elsewhere, in any order
	Progress func(seq uint64) // called now and then with the newest verified event; may be nil
}

// Audited is what a verification covered.
type Audited struct {
	First      uint64   // the first event that was verified: 1, or what retention has left
	State      *State   // after the last sound event; without jobs at their end
	Compared   int      // how many anchors were compared
	Unanswered []Anchor // anchors before First: the events are gone
}

// Verify reads the whole history and checks sequence, hash chain, transitions, times, segments and their
// checkpoints, the head file, the mirror's position, and that the indexes agree with the events. It gives
// the state after the last sound event; a *DamagedError says what is wrong with the next.
func (r *Reader) Verify(ctx context.Context) (*State, error) {
	audited, err := r.Audit(ctx, Audit{})
	return audited.State, err
}

// Audit is Verify, and compares the history with anchors besides: a history that was cut off, or rewritten with
// all its hashes, is sound in itself and disagrees with them.
func (r *Reader) Audit(ctx context.Context, a Audit) (*Audited, error) {
	v := &verifier{reader: r, audit: a, state: &State{}}
	audited := &Audited{}
	err := v.run(ctx)
	audited.First, audited.State, audited.Compared = v.first, v.state, v.compared
	for _, anchor := range a.Anchors {
		if anchor.Seq+1 < v.first {
			audited.Unanswered = append(audited.Unanswered, anchor)
		}
	}
	if err != nil {
		err = r.failed("verify", err)
	}
	return audited, err
}

// verifier verifies a journal, segment by segment.
type verifier struct {
	reader    *Reader
	audit     Audit
	expected  []expected // what is not passed yet, by sequence number
	compared  int
	head      acknowledgement
	waypoint  *waypoint // nil: there is none, or it was passed
	unfit     bool      // there is one that a start could not go on from
	notes     notes
	live      bool      // there is a newest segment, so this is no archive
	first     uint64    // of all that is verified
	number    int       // of the newest segment begun; 0: none
	header    header    // of the newest segment begun
	begun     time.Time // of its first event
	state     *State
	occurring []jobBlock // where jobs occur in the segment in hand
	weight    int        // of what was verified
}

func (v *verifier) run(ctx context.Context) (err error) {
	// Head, waypoint and notes go first: what a worker appends while we read must not look missing.
	if v.head, err = readHead(v.reader.dir); err != nil {
		return err
	}
	if v.waypoint, err = readWaypoint(v.reader.dir); err != nil {
		return err
	}
	if v.notes, v.live, err = v.reader.notes(ctx); err != nil {
		return err
	}
	for _, anchor := range v.audit.Anchors {
		v.expected = append(v.expected, expected{anchor, false})
	}
	if v.head.found {
		v.expected = append(v.expected, expected{Anchor{v.head.seq, v.head.hash}, true})
	}
	slices.SortStableFunc(v.expected, func(a, b expected) int { return cmp.Compare(a.Seq, b.Seq) })
	err = v.reader.walk(ctx, 0, func(_ part, s source, h header) error { return v.segment(ctx, s, h) })
	var missing *missingSegment
	if errors.As(err, &missing) {
		return &DamagedError{Seq: v.state.Seq + 1, Err: missing}
	}
	if err != nil {
		return err
	}
	return v.end()
}

// segment verifies one segment, from its beginning.
func (v *verifier) segment(ctx context.Context, s source, h header) error {
	if err := v.events(ctx, s, h); err != nil {
		return err
	}
	if sealed, ok := s.(*sealed); ok {
		if t := sealed.trailer; t.Last != v.state.Seq || t.Hash != v.state.Hash || t.Ended != v.state.Time.UnixMicro() {
			return &DamagedError{Seq: v.state.Seq + 1, Detail: fmt.Sprintf("segment %d was sealed with event %d as its last, and holds %d", h.number, t.Last, v.state.Seq)}
		}
	}
	if err := s.checkRest(ctx, v.occurring); err != nil {
		return err
	}
	if v.audit.Progress != nil {
		v.audit.Progress(v.state.Seq)
	}
	return nil
}

// events verifies a segment's header and events.
func (v *verifier) events(ctx context.Context, s source, h header) error {
	if err := v.begin(ctx, h); err != nil {
		return err
	}
	v.occurring = v.occurring[:0]
	if err := v.compare(Anchor{h.first - 1, h.previous}); err != nil {
		return err
	}
	return v.rest(v.reader.verified(ctx, s, 0, linked{after: h.first - 1, previous: h.opening()}))
}

// rest takes pages of checked events into the state.
func (v *verifier) rest(pages iter.Seq2[checked, error]) error {
	for page, err := range pages {
		if err := v.page(page); err != nil {
			return err
		}
		if err != nil {
			return wrong(v.state.Seq+1, err)
		}
	}
	return nil
}

// begin compares a segment's header with the events before it.
func (v *verifier) begin(ctx context.Context, h header) error {
	state, err := h.state()
	if err != nil {
		return err
	}
	switch {
	case v.number == h.number: // it was sealed while we read it: once more
	case v.number == 0, h.number > v.number+1: // the oldest, or retention has overtaken us
		v.first = h.first
		err = v.checkFirst(ctx, h)
	default:
		err = agrees(h, v.state)
	}
	if err != nil {
		return err
	}
	v.number, v.header, v.state = h.number, h, state
	return nil
}

// checkFirst checks that nothing but retention has removed what was before a segment.
func (v *verifier) checkFirst(ctx context.Context, h header) error {
	if h.number == 1 {
		return agrees(h, &State{})
	}
	n, live, err := v.reader.notes(ctx)
	if err == nil && live && h.number > n.kept {
		err = &DamagedError{Seq: h.first, Detail: fmt.Sprintf(
			"the history begins with segment %d, and segments from %d on were not removed by jobd", h.number, n.kept)}
	}
	return err
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

// page takes checked events into the state.
func (v *verifier) page(p checked) error {
	for _, e := range p.events {
		if e.Seq == v.header.first {
			v.begun = e.Time
		}
		if err := v.state.Apply(e); err != nil {
			return &DamagedError{Seq: e.Seq, Err: err}
		}
		v.weight += weight(e)
		if v.waypoint != nil && v.waypoint.anchor.Seq == e.Seq {
			if err := v.waypoint.agrees(v.state); err != nil {
				return err
			}
			v.waypoint = nil
		}
		if len(v.expected) > 0 && v.expected[0].Seq <= e.Seq {
			if err := v.compare(Anchor{e.Seq, e.Hash}); err != nil {
				return err
			}
		}
	}
	v.occurring = appendJobs(v.occurring, p.jobs, p.index)
	if v.audit.Progress != nil {
		v.audit.Progress(v.state.Seq)
	}
	return p.err
}

// expected is a hash that an event must have.
type expected struct {
	Anchor
	head bool // it is what the head file says
}

// compare compares an event with what is expected of its number, and passes what is before it.
func (v *verifier) compare(event Anchor) error {
	for ; len(v.expected) > 0 && v.expected[0].Seq <= event.Seq; v.expected = v.expected[1:] {
		want := v.expected[0]
		switch {
		case want.Seq < event.Seq || want.Seq == 0:
			continue
		case want.Hash != event.Hash && want.head:
			return &DamagedError{Seq: event.Seq, Detail: "it is not the event that was acknowledged under this number"}
		case want.Hash != event.Hash:
			return &DamagedError{Seq: event.Seq, Detail: "it is not the event that the anchor knows under this number: the history was rewritten"}
		case !want.head:
			v.compared++
		}
	}
	return nil
}

// end compares the end of the history with what is known of it from elsewhere.
func (v *verifier) end() error {
	end := v.state.Seq
	switch {
	case v.live && !v.head.found && end > 0:
		return &DamagedError{Detail: "the head file is missing, so nobody can tell whether the newest events are"}
	case v.head.found && v.head.seq > end:
		return &DamagedError{Seq: end + 1, Detail: fmt.Sprintf("events up to %d were acknowledged, the journal ends at %d", v.head.seq, end)}
	case v.head.found && !v.live:
		return &DamagedError{Seq: end + 1, Detail: "the newest segment is missing: all that are there are sealed"}
	case v.waypoint != nil && v.waypoint.anchor.Seq > end:
		return &DamagedError{Seq: end + 1, Detail: fmt.Sprintf("the waypoint file knows event %d, the journal ends at %d", v.waypoint.anchor.Seq, end)}
	case v.notes.position > end:
		return &DamagedError{Seq: end + 1, Detail: fmt.Sprintf("the jobs table shows event %d, the journal ends at %d", v.notes.position, end)}
	case len(v.expected) > 0:
		last := v.expected[len(v.expected)-1]
		return &DamagedError{Seq: end + 1, Detail: fmt.Sprintf("an anchor knows event %d, the journal ends at %d", last.Seq, end)}
	}
	return nil
}

package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"

	"jobd/journal"
	"jobd/journal/archive"
)

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
	if archive.IsDamage(err) {
		return v.unreadable(p, err)
	}
	if err != nil {
		return err
	}
	defer s.Close()
	if p.Path != v.examined {
		if err := v.examine(ctx, s); err != nil {
			return err
		}
	}
	h, err := s.Header(ctx)
	if archive.IsDamage(err) {
		return v.unreadable(p, err)
	}
	if err == nil && h.Number != p.Number {
		return v.unreadable(p, &journal.DamagedError{Detail: fmt.Sprintf("file %s holds segment %d", p.Path, h.Number)})
	}
	if err != nil {
		return err
	}
	if again && v.state != nil {
		if v.state, err = h.State(); err != nil {
			return err
		}
	}
	return v.segment(ctx, s, h)
}

// examine looks whether a segment's file is what this version makes.
func (v *verifier) examine(ctx context.Context, s archive.Source) error {
	_, err := s.Examine(ctx)
	return v.faulty(s.Name(), err)
}

// unreadable notes that nothing of a segment can be read. Its events are those between its neighbours'.
func (v *verifier) unreadable(p archive.Part, cause error) error {
	var d *journal.DamagedError
	errors.As(cause, &d)
	f := archive.Fault{File: filepath.Base(p.Path), Detail: d.Detail, Err: d.Err}
	switch {
	case v.number > 0:
		f.First = v.links.next
		if p.Number > v.number+1 {
			v.fault(archive.Fault{First: f.First, Err: &archive.MissingError{First: v.number + 1, Last: p.Number - 1}})
		}
	case p.Number == 1:
		f.First = 1
	}
	v.lose(f)
	if v.number == 0 {
		v.oldest = archive.Header{Number: p.Number, First: f.First}
	}
	v.number, v.header = p.Number, archive.Header{Number: p.Number, First: f.First}
	return nil
}

// lose notes damage whose end the next segment tells.
func (v *verifier) lose(f archive.Fault) {
	v.broken()
	v.links.cut()
	v.state, v.unknown = nil, true
	if v.lost == nil {
		v.lost = &f
	} else { // nobody can tell where the one ends and the other begins
		f.First = v.lost.First
		v.fault(f)
	}
}

// found ends what is lost at the first event that is known again; 0: there is none.
func (v *verifier) found(first uint64) {
	if v.lost == nil {
		return
	}
	f := *v.lost
	v.lost = nil
	if f.Last = max(first, 1) - 1; first == 0 {
		f.Last = max(f.First, v.known())
	}
	if f.First == 0 { // where it begins nobody can tell
		f.First = f.Last
	}
	if v.oldest.First == 0 {
		v.oldest.First = f.First
	}
	if v.links.next = f.Last + 1; f.Last < f.First { // it had no events
		v.links.next, f.Last = f.First, 0
	}
	v.fault(f)
	v.pass(max(f.Last, 1) - 1)
}

// segment verifies one segment, from its beginning.
func (v *verifier) segment(ctx context.Context, s archive.Source, h archive.Header) error {
	before := len(v.faults)
	if err := v.events(ctx, s, h); err != nil {
		return err
	}
	sealing, sealed := s.Bounds()
	if end := v.links.next - 1; sealed && before == len(v.faults) {
		if sealing.Last != end || sealing.Hash != v.last || v.state != nil && sealing.Ended != v.state.Time.UnixMicro() {
			v.fault(archive.Fault{
				First: end + 1, Last: sealing.Last, Missing: sealing.Last > end, File: s.Name(),
				Detail: fmt.Sprintf("segment %d was sealed with event %d as its last, and holds %d", h.Number, sealing.Last, end),
			})
			v.links.next = max(v.links.next, sealing.Last+1)
		}
	}
	if before == len(v.faults) {
		if err := v.faulty(s.Name(), s.CheckRest(ctx, v.occurring)); err != nil {
			return err
		}
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
		for i := range page.Found {
			if f := &page.Found[i]; f.Fault != nil {
				v.addDamage(*f.Fault)
			} else {
				v.addEvent(&f.Event)
			}
		}
		v.occurring = archive.AppendJobs(v.occurring, page.Jobs, page.Index)
		v.reportProgress()
	}
	return nil
}

// beginSegment takes in a segment's header, and compares it with the events before it.
func (v *verifier) beginSegment(h archive.Header) error {
	v.found(h.First)
	first := v.number == 0
	switch {
	case first && h.Number == 1:
		v.oldest, v.links.next, v.state, v.last = h, 1, firstState(h), journal.Hash{}
	case first:
		v.oldest, v.links.next, v.state, v.last = h, h.First, nil, h.Previous
	}
	if first {
		v.unknown = false
	}
	v.follows(h, first)
	if first || v.unknown {
		v.last, v.unknown = h.Previous, false
	}
	v.compareBefore(h)
	v.number, v.header = h.Number, h
	v.ends[h.Number] = journal.Anchor{Seq: h.First - 1, Hash: h.Previous}
	return v.checkpoint(h)
}

// compareBefore compares the event before a segment with what is expected of it, where it is not
// there itself.
func (v *verifier) compareBefore(h archive.Header) {
	if h.First == 1 {
		return
	}
	before := len(v.links.against)
	v.compare(journal.Anchor{Seq: h.First - 1, Hash: h.Previous})
	for i := range v.links.against[before:] {
		v.links.against[before+i].run = h.First
	}
}

// follows tells how a header follows what was verified before it.
func (v *verifier) follows(h archive.Header, first bool) {
	l := &v.links
	switch {
	case h.First > l.next:
		v.missingBefore(h.Number, h.First-1)
	case h.First < l.next:
		l.cut()
		v.fault(archive.Fault{First: h.First, Last: l.next - 1, Detail: fmt.Sprintf(
			"it is there twice; segment %d begins with it, the one before ends with %d", h.Number, l.next-1)})
		l.next, v.state, v.unknown = h.First, nil, true
	case v.unknown:
		l.cut()
	case !first && h.Number != v.number+1:
		l.cut()
		v.fault(archive.Fault{First: h.First, Detail: fmt.Sprintf("segment %d goes on from segment %d", h.Number, v.number)})
	case h.Previous != v.last:
		// The header is as good as an anchor of the event before it, unless an anchor agrees with that event.
		if proven := l.run.proven == h.First-1; !proven {
			l.disagrees(h.First-1, fmt.Sprintf("segment %d goes on from something else", h.Number))
			l.cut()
		} else {
			l.cut()
			l.against = append(l.against, disagreement{
				h.First, h.First, h.First, "it does not go on from the events before it, which an anchor agrees with",
			})
		}
		v.fault(archive.Fault{First: h.First, Detail: fmt.Sprintf("segment %d does not follow the one before it", h.Number)})
		v.state, v.last = nil, h.Previous
	}
}

// missingBefore notes that events up to last are not there, before a segment.
func (v *verifier) missingBefore(number int, last uint64) {
	l := &v.links
	l.cut()
	f := archive.Fault{First: l.next, Last: last, Missing: true, Detail: fmt.Sprintf("it is missing; segment %d begins with event %d", number, last+1)}
	if number > v.number+1 && v.number > 0 {
		f.Detail, f.Err = "", &archive.MissingError{First: v.number + 1, Last: number - 1}
	}
	v.fault(f)
	v.pass(max(last, 1) - 1)
	l.next, v.state, v.unknown = last+1, nil, true
}

// checkpoint compares a header's checkpoint with the state that the events before it give, or goes
// on from it where that is not known.
func (v *verifier) checkpoint(h archive.Header) error {
	state, err := h.State()
	if err != nil {
		v.state = nil
		v.fault(archive.Fault{First: h.First, Last: h.First, Err: err, Linked: true})
		return nil
	}
	if state.Removed != nil {
		v.removal = state.Removed
	}
	if v.state == nil {
		v.state = state
		return nil
	}
	checkpoint, err := journal.EncodeCheckpoint(v.state)
	if err != nil {
		return err
	}
	if string(checkpoint) != string(h.Checkpoint) {
		v.fault(archive.Fault{First: h.First, Last: h.First, Linked: true, Detail: fmt.Sprintf("the checkpoint of segment %d disagrees with the events before it", h.Number)})
	}
	return nil
}

// rewritten is what is said of events between one that an anchor agrees with and one that it does
// not.
const rewritten = "an anchor knows another history: this is not what was written"

// compare compares an event with what is expected of its number.
func (v *verifier) compare(event journal.Anchor) {
	for _, want := range v.expected[event.Seq] {
		switch {
		case want.Hash != event.Hash && want.head:
			v.fault(archive.Fault{First: event.Seq, File: archive.HeadFile, Detail: "it is not the event that was acknowledged under this number"})
		case want.Hash != event.Hash:
			v.links.disagrees(event.Seq, rewritten)
			v.fault(archive.Fault{First: event.Seq, Detail: "it is not the event that the anchor knows under this number: the history was rewritten"})
		case !want.head:
			v.compared++
			v.links.agrees(event.Seq)
		}
	}
	delete(v.expected, event.Seq)
}

// addDamage takes in what is wrong with the next events.
func (v *verifier) addDamage(f archive.Fault) {
	if f.Open {
		v.lose(f)
		return
	}
	v.fault(f)
	if f.Surplus || f.Last < f.First {
		return
	}
	v.state = nil
	if f.Linked {
		v.links.sound(f.First)
		v.compare(journal.Anchor{Seq: f.First, Hash: f.Stored})
		v.last, v.unknown = f.Stored, false
		return
	}
	v.links.cut()
	v.links.next = f.Last + 1
	v.last, v.unknown = f.Stored, f.Stored == journal.Hash{}
	for _, want := range v.expected[f.First] {
		if !f.Missing && want.Hash != f.Stored && !want.head {
			v.links.disagrees(f.First, rewritten)
		}
	}
	v.pass(f.Last)
}

// addEvent takes in the next event, whose hash is right.
func (v *verifier) addEvent(e *journal.Event) {
	v.links.sound(e.Seq)
	v.last, v.unknown = e.Hash, false
	if e.Seq == v.header.First {
		v.begun = e.Time
	}
	if v.state != nil {
		if err := v.state.Apply(*e); err != nil {
			v.fault(archive.Fault{First: e.Seq, Last: e.Seq, Err: err, Linked: true})
			v.state = nil
		}
	}
	if p, ok := e.Payload.(journal.Retention); ok {
		v.addRemoval(e, p)
	}
	if len(v.expected) > 0 {
		v.compare(journal.Anchor{Seq: e.Seq, Hash: e.Hash})
	}
}

// addRemoval takes in what an event says of retention, which must be true of the segments that are
// still here.
func (v *verifier) addRemoval(e *journal.Event, p journal.Retention) {
	if end, here := v.ends[p.Last+1]; here && p.Last > 0 && (end.Seq != p.Seq || end.Hash.String() != p.Hash) {
		v.fault(archive.Fault{First: e.Seq, Last: e.Seq, Linked: true, Detail: fmt.Sprintf("it says that segment %d ended with event %d, which is not what it ended with", p.Last, p.Seq)})
		return
	}
	v.removal = v.removal.After(p)
}

// known is the newest event that anything knows of, whether or not it is there.
func (v *verifier) known() uint64 { return max(v.head.Seq, v.position, v.newest) }

// end compares beginning and end of the history with what is known of them from elsewhere.
func (v *verifier) end() {
	v.found(0)
	v.atEnd()
	if v.number > 0 {
		v.atBeginning()
	}
}

// atEnd compares the end.
func (v *verifier) atEnd() {
	end := max(v.links.next, 1) - 1
	lost := func(last uint64, format string) {
		if last > end {
			v.fault(archive.Fault{First: end + 1, Last: last, Missing: true, Detail: fmt.Sprintf(format, last, end)})
		}
	}
	if v.live && !v.head.Found && end > 0 {
		v.fault(archive.Fault{File: archive.HeadFile, Detail: archive.DetailNoHead})
	}
	if v.head.Found {
		lost(v.head.Seq, archive.DetailCut)
	}
	if !v.live && v.head.Seq <= end && (v.head.Found || archive.UsedByWorker(v.folder.Dir)) {
		v.fault(archive.Fault{First: end + 1, Detail: archive.DetailAllSealed})
	}
	lost(v.position, "the jobs table shows event %d, the journal ends at %d")
	if v.newest > v.head.Seq {
		lost(v.newest, "an anchor knows event %d, the journal ends at %d")
	}
}

// atBeginning asks whether retention has removed what is not there.
func (v *verifier) atBeginning() {
	h, r := v.oldest, v.removal
	switch {
	case h.Number == 1:
		return
	case r == nil: // of a version that did not journal what it removed: that is told, and is no damage
		if v.unproven = h.First - 1; v.unproven > 0 {
			v.removed = &Range{First: 1, Last: v.unproven, Verdict: Removed, Detail: "before removals were journalled: nothing here says so"}
		}
		return
	case h.Number > r.Segment+1:
		first, last := r.Seq+1, h.First-1
		v.fault(archive.Fault{First: first, Last: max(first, last), Missing: true, Detail: fmt.Sprintf(
			"the history begins with segment %d, and no event says that retention removed those from %d on",
			h.Number, r.Segment+1)})
	case h.Number == r.Segment+1 && h.Previous != journal.Hash{} &&
		(h.First != r.Seq+1 || h.Previous.String() != r.Hash):
		v.fault(archive.Fault{First: h.First, Last: h.First, Linked: true, Detail: fmt.Sprintf(
			"segment %d does not follow event %d, which is the newest that retention has removed", h.Number, r.Seq)})
	}
	if r.Segment == 0 {
		return
	}
	last := min(r.Seq, h.First-1)
	v.removed = &Range{First: 1, Last: last, Verdict: Removed, Detail: "by retention"}
	if r.Noted > 0 {
		v.removed.Detail = fmt.Sprintf(
			"by retention, segments up to %d before that was journalled: nothing here said so", r.Noted)
		if v.unproven = v.ends[r.Noted+1].Seq; v.unproven == 0 {
			v.unproven = last
		}
	}
}

package verify

import (
	"fmt"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/segment"
)

// beginSegment takes in a segment's header, and compares it with the events before it.
func (v *verifier) beginSegment(h segment.Header) error {
	v.doubt = nil
	first := v.number == 0
	switch {
	case first && h.Number == 1:
		v.oldest, v.links.next, v.state, v.last, v.other = h, 1, firstState(h), journal.Hash{}, journal.Hash{}
	case first:
		v.oldest, v.links.next, v.state = h, h.First, nil
		v.last, v.other = h.Previous, h.Previous
	}
	if first {
		v.unknown = false
	}
	v.follows(h, first)
	if first || v.unknown {
		v.last, v.other, v.unknown = h.Previous, h.Previous, false
	}
	v.compareBefore(h)
	v.number, v.header = h.Number, h
	v.ends[h.Number] = journal.Anchor{Seq: h.First - 1, Hash: h.Previous}
	return v.checkpoint(h)
}

// compareBefore compares the event before a segment with what is expected of it, where it is not
// there itself.
func (v *verifier) compareBefore(h segment.Header) {
	if h.First == 1 || len(v.expected) == 0 || v.expected[0].Seq >= h.First {
		return
	}
	before := len(v.links.against)
	v.compare(journal.Anchor{Seq: h.First - 1, Hash: h.Previous})
	for i := range v.links.against[before:] {
		v.links.against[before+i].run = h.First
	}
}

// follows tells how a header follows what was verified before it.
func (v *verifier) follows(h segment.Header, first bool) {
	l := &v.links
	switch {
	case h.First > l.next:
		v.missingBefore(h.Number, h.First-1)
	case h.First < l.next:
		l.cut()
		v.fault(segment.Fault{First: h.First, Last: l.next - 1, Detail: fmt.Sprintf(
			"it is there twice; segment %d begins with it, the one before ends with %d", h.Number, l.next-1)})
		l.next, v.state, v.unknown = h.First, nil, true
	case v.unknown:
		l.cut()
	case !first && h.Number != v.number+1:
		l.cut()
		v.fault(segment.Fault{First: h.First, Detail: fmt.Sprintf("segment %d goes on from segment %d", h.Number, v.number)})
	case h.Previous != v.last && h.Previous != v.other:
		run, proven := l.run.first, l.run.proven
		l.cut()
		v.doubt = &disagreement{
			since: min(l.agreed+1, h.First-1), seq: h.First - 1, run: run,
			detail: fmt.Sprintf("segment %d goes on from something else", h.Number),
		}
		if proven == h.First-1 { // so it is the segment that does not belong here
			v.doubt = &disagreement{h.First, h.First, h.First, "it does not go on from the events before it, which an anchor agrees with"}
		}
		v.fault(segment.Fault{First: h.First, Detail: fmt.Sprintf("segment %d does not follow the one before it", h.Number)})
		v.state, v.last, v.other = nil, h.Previous, h.Previous
	}
}

// missingBefore notes that events up to last are not there, before a segment.
func (v *verifier) missingBefore(number int, last uint64) {
	l := &v.links
	l.cut()
	f := segment.Fault{First: l.next, Last: last, Missing: true, Detail: fmt.Sprintf("it is missing; segment %d begins with event %d", number, last+1)}
	if number > v.number+1 && v.number > 0 {
		f.Detail, f.Err = "", &folder.MissingError{First: v.number + 1, Last: number - 1}
	}
	v.fault(f)
	for ; len(v.expected) > 0 && v.expected[0].Seq < last; v.expected = v.expected[1:] {
	}
	l.next, v.state, v.unknown = last+1, nil, true
}

// checkpoint compares a header's checkpoint with the state that the events before it give, or goes
// on from it where that is not known.
func (v *verifier) checkpoint(h segment.Header) error {
	state, err := h.State()
	if err != nil {
		v.state = nil
		v.fault(segment.Fault{First: h.First, Last: h.First, Err: err, Linked: true})
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
		v.fault(segment.Fault{First: h.First, Last: h.First, Linked: true, Detail: fmt.Sprintf("the checkpoint of segment %d disagrees with the events before it", h.Number)})
	}
	return nil
}

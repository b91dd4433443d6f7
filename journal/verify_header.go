package journal

import "fmt"

// begin takes in a segment's header, and compares it with the events before it.
func (v *verifier) begin(h header) error {
	v.doubt = nil
	first := v.number == 0
	switch {
	case first && h.number == 1:
		v.oldest, v.links.next, v.state, v.last, v.other = h, 1, firstState(h), Hash{}, Hash{}
	case first:
		v.oldest, v.links.next, v.state = h, h.first, nil
		v.last, v.other = h.previous, h.previous
	}
	if first {
		v.unknown = false
	}
	v.follows(h, first)
	if first || v.unknown {
		v.last, v.other, v.unknown = h.previous, h.previous, false
	}
	v.compareBefore(h)
	v.number, v.header = h.number, h
	v.ends[h.number] = Anchor{h.first - 1, h.previous}
	return v.checkpoint(h)
}

// compareBefore compares the event before a segment with what is expected of it, where it is not there itself.
func (v *verifier) compareBefore(h header) {
	if h.first == 1 || len(v.expected) == 0 || v.expected[0].Seq >= h.first {
		return
	}
	before := len(v.links.against)
	v.compare(Anchor{h.first - 1, h.previous})
	for i := range v.links.against[before:] {
		v.links.against[before+i].run = h.first
	}
}

// follows tells how a header follows what was verified before it.
func (v *verifier) follows(h header, first bool) {
	l := &v.links
	switch {
	case h.first > l.next:
		v.missingBefore(h.number, h.first-1)
	case h.first < l.next:
		l.cut()
		v.fault(Fault{First: h.first, Last: l.next - 1, Detail: fmt.Sprintf(
			"it is there twice; segment %d begins with it, the one before ends with %d", h.number, l.next-1)})
		l.next, v.state, v.unknown = h.first, nil, true
	case v.unknown:
		l.cut()
	case !first && h.number != v.number+1:
		l.cut()
		v.fault(Fault{First: h.first, Detail: fmt.Sprintf("segment %d goes on from segment %d", h.number, v.number)})
	case h.previous != v.last && h.previous != v.other:
		run, proven := l.run.first, l.run.proven
		l.cut()
		v.doubt = &disagreement{
			since: min(l.agreed+1, h.first-1), seq: h.first - 1, run: run,
			detail: fmt.Sprintf("segment %d goes on from something else", h.number),
		}
		if proven == h.first-1 { // so it is the segment that does not belong here
			v.doubt = &disagreement{h.first, h.first, h.first, "it does not go on from the events before it, which an anchor agrees with"}
		}
		v.fault(Fault{First: h.first, Detail: fmt.Sprintf("segment %d does not follow the one before it", h.number)})
		v.state, v.last, v.other = nil, h.previous, h.previous
	}
}

// missingBefore notes that events up to last are not there, before a segment.
func (v *verifier) missingBefore(number int, last uint64) {
	l := &v.links
	l.cut()
	f := Fault{First: l.next, Last: last, Missing: true, Detail: fmt.Sprintf("it is missing; segment %d begins with event %d", number, last+1)}
	if number > v.number+1 && v.number > 0 {
		f.Detail, f.Err = "", &missingSegment{v.number + 1, number - 1}
	}
	v.fault(f)
	for ; len(v.expected) > 0 && v.expected[0].Seq < last; v.expected = v.expected[1:] {
	}
	l.next, v.state, v.unknown = last+1, nil, true
}

// checkpoint compares a header's checkpoint with the state that the events before it give, or goes on from it where that is not
// known.
func (v *verifier) checkpoint(h header) error {
	state, err := h.state()
	if err != nil {
		v.state = nil
		v.fault(Fault{First: h.first, Last: h.first, Err: err, linked: true})
		return nil
	}
	if state.Removed != nil {
		v.removal = state.Removed
	}
	if v.state == nil {
		v.state = state
		return nil
	}
	checkpoint, err := encodeCheckpoint(v.state)
	if err != nil {
		return err
	}
	if string(checkpoint) != string(h.checkpoint) {
		v.fault(Fault{First: h.first, Last: h.first, linked: true, Detail: fmt.Sprintf("the checkpoint of segment %d disagrees with the events before it", h.number)})
	}
	return nil
}

package journal

import "fmt"

// Removal is what retention has taken so far, as the history itself tells: by retention events, and by the checkpoints that
// carry it on when the segments with these events are gone themselves.
type Removal struct {
	Segment int    `json:"segment,omitempty"` // the newest that is gone; 0: none
	Seq     uint64 `json:"seq,omitempty"`     // its last event
	Hash    string `json:"hash,omitempty"`    // that event's hash, in hexadecimal
	Noted   int    `json:"noted,omitempty"`   // the segments up to this one went before such events existed: only a note said so
}

// after is what is gone after one more retention event. The first one of a journal that older versions began says what went
// before such events existed. Removals are replaced, never changed.
func (r *Removal) after(p Retention) *Removal {
	next := &Removal{Segment: p.Last, Seq: p.Seq, Hash: p.Hash}
	switch {
	case r == nil:
		next.Noted = p.Last
	case p.Last <= r.Segment:
		return r
	default:
		next.Noted = r.Noted
	}
	return next
}

// segment is the newest segment that is gone; 0: none.
func (r *Removal) segment() int {
	if r == nil {
		return 0
	}
	return r.Segment
}

// leaves tells whether a history that was shortened so may begin with a header; nil: it may.
func (r *Removal) leaves(h header) *Fault {
	switch {
	case h.number == 1:
		return nil
	case h.number > r.Segment+1:
		first, last := r.Seq+1, h.first-1
		return &Fault{First: first, Last: max(first, last), Missing: true, Detail: fmt.Sprintf(
			"the history begins with segment %d, and no event says that retention removed those from %d on", h.number, r.Segment+1)}
	case h.number == r.Segment+1 && (h.first != r.Seq+1 || h.previous.String() != r.Hash):
		return &Fault{First: h.first, Last: h.first, linked: true, Detail: fmt.Sprintf(
			"segment %d does not follow event %d, which is the newest that retention has removed", h.number, r.Seq)}
	}
	return nil
}

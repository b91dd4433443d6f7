package journal

// Removal is what retention has taken so far, as the history itself tells: by retention events, and
// by the checkpoints that carry it on when the segments with these events are gone themselves.
type Removal struct {
	Segment int    `json:"segment,omitempty"` // the newest that is gone; 0: none
	Seq     uint64 `json:"seq,omitempty"`     // its last event
	Hash    string `json:"hash,omitempty"`    // that event's hash, in hexadecimal
	Noted   int    `json:"noted,omitempty"`   // the segments up to this one went before such events existed: only a note said so
}

// After is what is gone after one more retention event. The first one of a journal that older
// versions began says what went before such events existed. Removals are replaced, never changed.
func (r *Removal) After(p Retention) *Removal {
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

// Last is the number of the newest segment that is gone; 0: none.
func (r *Removal) Last() int {
	if r == nil {
		return 0
	}
	return r.Segment
}

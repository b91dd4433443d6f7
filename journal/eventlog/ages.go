package eventlog

import (
	"slices"
	"time"
)

// shift says by how much the stamps at the ends of segments were ahead of the time line, from a
// segment on.
type shift struct {
	Segment int   `json:"segment"`
	By      int64 `json:"by"`
}

// ages is what happened when by the time line. Its zero value is of a journal without events.
type ages struct {
	begun  time.Time // the newest segment's first event; zero: there is none
	last   time.Time // the newest event
	shifts []shift
}

// leastShift is the difference between stamps and time line from which on it is noted.
const leastShift = time.Second

// end notes when a segment ended whose last event bears a stamp.
func (a *ages) end(segment int, stamped, real time.Time) {
	by, before := stamped.Sub(real), time.Duration(0)
	if n := len(a.shifts); n > 0 {
		before = time.Duration(a.shifts[n-1].By) * time.Microsecond
	}
	if (by - before).Abs() >= leastShift {
		a.shifts = append(a.shifts, shift{segment, by.Microseconds()})
	}
}

// ended is when a segment ended whose last event bears a stamp.
func (a *ages) ended(segment int, stamped time.Time) time.Time {
	for _, s := range slices.Backward(a.shifts) {
		if s.Segment <= segment {
			return stamped.Add(-time.Duration(s.By) * time.Microsecond)
		}
	}
	return stamped
}

// forget drops what is said of segments before kept only.
func (a *ages) forget(kept int) {
	for len(a.shifts) > 1 && a.shifts[1].Segment <= kept {
		a.shifts = a.shifts[1:]
	}
}

package board

import (
	"math/rand/v2"
	"time"
)

// Backoff is the time of the next try of one thing, which grows from try to try.
type Backoff struct {
	Due    time.Time // zero: no try is planned
	length time.Duration
}

// Grow plans the next try: after first at most, twice as long each time, never longer than most. Up
// to two fifths are taken off at random, so that several workers do not meet again and again.
func (b *Backoff) Grow(now time.Time, first, most time.Duration) {
	b.length = min(max(first, 2*b.length), most)
	b.Due = now.Add(b.length - rand.N(2*b.length/5+1))
}

// Passed tells whether the try is due, and takes it from the plan.
func (b *Backoff) Passed(now time.Time) bool {
	if b.Due.IsZero() || b.Due.After(now) {
		return false
	}
	b.Due = time.Time{}
	return true
}

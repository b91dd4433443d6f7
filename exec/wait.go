package exec

import (
	"math/rand/v2"
	"time"
)

// backoff is the time of the next try of one thing, which grows from try to try.
type backoff struct {
	length time.Duration
	due    time.Time // zero: no try is planned
}

// grow plans the next try: after first at most, twice as long each time, never longer than most. Up to two fifths
// are taken off at random, so that several workers do not meet again and again.
func (b *backoff) grow(first, most time.Duration) {
	b.length = min(max(first, 2*b.length), most)
	b.due = time.Now().Add(b.length - rand.N(2*b.length/5+1))
}

// passed tells whether the try is due, and takes it from the plan.
func (b *backoff) passed(now time.Time) bool {
	if b.due.IsZero() || b.due.After(now) {
		return false
	}
	b.due = time.Time{}
	return true
}

// tally counts what is under way. The worker's mutex guards it.
type tally struct {
	n      int
	waiter []chan struct{}
}

func (t *tally) add() { t.n++ }

func (t *tally) done() {
	if t.n--; t.n > 0 {
		return
	}
	for _, c := range t.waiter {
		close(c)
	}
	t.waiter = nil
}

// empty gives a channel that is closed when nothing is under way.
func (t *tally) empty() <-chan struct{} {
	c := make(chan struct{})
	if t.n == 0 {
		close(c)
	} else {
		t.waiter = append(t.waiter, c)
	}
	return c
}

package store

import (
	"errors"
	"testing"
)

// An outage counts when it is over, and once, however often the table was tried meanwhile.
func TestOutagesAreCounted(t *testing.T) {
	t.Parallel()
	o := &outage{away: make(chan struct{})}
	gone := errors.New("no route to host")
	for i, step := range []struct {
		why  error
		want uint64
	}{{nil, 0}, {gone, 0}, {gone, 0}, {nil, 1}, {nil, 1}, {gone, 1}, {nil, 2}} {
		o.setAway(step.why)
		if got := o.Outages(); got != step.want {
			t.Errorf("after step %d: %d, want %d", i, got, step.want)
		}
	}
}

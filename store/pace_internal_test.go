package store

import (
	"errors"
	"testing"
	"time"
)

// Rows that the table does not take are tried some at a time, each ever less often.
func TestRowsThatAreNotTakenAreTriedEverLessOften(t *testing.T) {
	t.Parallel()
	b := &backlog{rows: map[int64]*owedRow{}}
	now := time.Now()
	for job := range int64(1000) {
		b.set(Change{Job: job, first: uint64(job) + 1}, Outcome{Fate: Refused}, now)
	}
	b.reckon()
	tried := b.due(now.Add(firstPause))
	if len(tried) != mostTried {
		t.Errorf("%d are tried together", len(tried))
	}
	tries := 0
	for end := now.Add(time.Minute); now.Before(end); now = now.Add(firstPause) {
		b.reckon()
		for _, c := range b.due(now) {
			if c.Job == 0 {
				tries++
			}
			b.set(c, Outcome{Fate: []Fate{Refused, Held}[tries%2]}, now)
		}
	}
	if tries < 10 || tries > 20 {
		t.Errorf("one row was tried %d times in a minute", tries)
	}
}

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

package board

import (
	"testing"
	"time"
)

// What happened a minute ago or longer is not told any more, and what comes in its place in the
// ring is not added to it.
func TestRatesLookBackAMinute(t *testing.T) {
	begun := time.Unix(1_000_000, 0)
	at := func(seconds float64) time.Time { return begun.Add(time.Duration(seconds * float64(time.Second))) }
	target := &Target{}
	if got := target.Rates(begun); got != (Rates{}) {
		t.Errorf("before the first job: %+v", got)
	}
	j := &Job{target: target}
	j.countStart(at(0))
	j.countStart(at(1)) // the same start
	j.countEnd(true, at(0.9))
	j.countEnd(false, at(30))
	for seconds, want := range map[float64]Rates{
		30: {1, 2, 1}, 59.9: {1, 2, 1}, 60: {0, 1, 1}, 89.9: {0, 1, 1}, 90: {}, 1e6: {},
	} {
		if got := target.Rates(at(seconds)); got != want {
			t.Errorf("after %v s: %+v, want %+v", seconds, got, want)
		}
	}
	j.countEnd(true, at(90)) // in the place of 30
	if got, want := target.Rates(at(90)), (Rates{0, 1, 0}); got != want {
		t.Errorf("the ring goes on with %+v, want %+v", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { j.counted = false; j.countStart(at(91)); j.countEnd(true, at(91)) }); n > 0 {
		t.Errorf("a job takes %v allocations", n)
	}
}

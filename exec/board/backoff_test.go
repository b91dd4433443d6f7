package board

import (
	"testing"
	"time"
)

func TestABackoffGrowsUpToItsBound(t *testing.T) {
	t.Parallel()
	var b Backoff
	for _, most := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
		now := time.Now()
		b.Grow(now, 50*time.Millisecond, time.Second)
		if least := most * 6 / 10; b.Due.Before(now.Add(least*time.Millisecond)) || b.Due.After(now.Add(most*time.Millisecond)) {
			t.Errorf("due after %s, want %d to %d ms", b.Due.Sub(now), least, most)
		}
	}
	if b.Passed(b.Due.Add(-1)) || !b.Passed(b.Due) || b.Passed(time.Now().Add(time.Hour)) {
		t.Error("a try is due once, at its time")
	}
}

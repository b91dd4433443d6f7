package main

import (
	"math"
	"runtime/debug"
	"testing"
)

// Regression: with thousands of idle connections the collector ran without end, to get below a
// limit that did not know of them. (Not parallel: the limit is the process's.)
func TestMemoryFollowsConnections(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	limit := func() int64 { return debug.SetMemoryLimit(-1) }
	m := limitMemory(config{})
	alone, changes := limit(), 0
	for _, step := range []struct{ from, to int }{{1, 10_000}, {10_000, 0}} {
		last := limit()
		for open := step.from; ; open += max(-1, min(1, step.to-step.from)) {
			m.linked(open)
			if now := limit(); now != last {
				last, changes = now, changes+1
			}
			if least := alone + int64(open)*memoryLink; last < least || last > least+3*linkStep*memoryLink {
				t.Fatalf("limit %d with %d connections, want about %d", last, open, least)
			}
			if open == step.to {
				break
			}
		}
	}
	if most := int(math.Ceil(2 * 10_000 / linkStep)); changes > most+2 {
		t.Errorf("the limit changed %d times, want at most %d", changes, most+2)
	}
}

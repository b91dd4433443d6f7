package master

import (
	"testing"
	"time"
)

func TestPitfall37WorkersDoNotComeBackTogether(t *testing.T) {
	t.Parallel()
	const most, workers, parts = 10 * time.Second, 1000, 10
	var tenths [parts]int
	for range workers {
		wait := jitter(most)
		if wait < 0 || wait >= most {
			t.Fatalf("a wait of %s, where %s is the most", wait, most)
		}
		tenths[wait*parts/most]++
	}
	for i, n := range tenths {
		if n > workers/parts*2 {
			t.Errorf("%d of %d workers come back in the same tenth of the time, the %dth", n, workers, i+1)
		}
	}
}

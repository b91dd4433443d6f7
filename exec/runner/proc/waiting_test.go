package proc

import (
	"runtime"
	"sync/atomic"
	"testing"
)

func TestListedProcessorsAreCounted(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]int{"0\n": 1, "0-1\n": 2, "0-3,8,10-11\n": 7} {
		if n, ok := listed([]byte(list)); !ok || n != want {
			t.Errorf("%q: %d, %t, want %d", list, n, ok, want)
		}
	}
	for _, list := range []string{"", "\n", "a", "3-1", "0-", "-1", "1,,2"} {
		if n, ok := listed([]byte(list)); ok {
			t.Errorf("%q is taken for a list of %d", list, n)
		}
	}
}

func TestRunnableThreadsAreRead(t *testing.T) {
	t.Parallel()
	if n, ok := runnableOf([]byte("0.20 0.18 0.12 17/80 11206\n")); !ok || n != 17 {
		t.Errorf("%d, %t", n, ok)
	}
	for _, text := range []string{"", "0.20 0.18 0.12", "0.20 0.18 0.12 x/80 11206"} {
		if n, ok := runnableOf([]byte(text)); ok {
			t.Errorf("%q is taken for %d", text, n)
		}
	}
}

// Threads that compute on more than all processors wait for one.
func TestWaitingThreadsAreSeen(t *testing.T) {
	var p Processors
	var over atomic.Bool
	defer over.Store(true)
	busy := runtime.NumCPU() + 4
	former := runtime.GOMAXPROCS(busy)
	defer runtime.GOMAXPROCS(former)
	for range busy {
		go func() {
			for !over.Load() { //nolint:revive // it only computes
			}
		}()
	}
	for range 10_000_000 {
		if p.Waiting() > 0 {
			return
		}
	}
	t.Error("no thread was ever seen to wait")
}

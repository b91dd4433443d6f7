package master

import (
	"testing"
	"testing/synctest"
	"time"
)

// What a master counts, and what it knows of its workers; no worker is asked.
func TestAMastersStanding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		b.join("one", askedFor(new([]string), "1"), "a")
		two := b.join("two", askedFor(new([]string), "2"), "a", "b")
		before := time.Now()
		b.do("poke", `{"targets":["a","nobody"]}`)
		synctest.Wait()
		time.Sleep(time.Minute)
		got := b.Standing()
		if got.Workers != 2 || got.Targets != 2 || got.Ended != 0 || got.Poked != 2 || got.Unserved != 1 {
			t.Errorf("%+v", got)
		}
		if got.Polled < 2 || got.UnservedSince.Sub(before).Abs() > time.Second {
			t.Errorf("polled %d times, unserved since %v, poked at %v", got.Polled, got.UnservedSince, before)
		}
		two.Close()
		synctest.Wait()
		if got := b.Standing(); got.Workers != 1 || got.Ended != 1 || got.Targets != 1 {
			t.Errorf("behind the end of a worker: %+v", got)
		}
	})
}

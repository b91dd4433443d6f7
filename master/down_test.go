package master

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"jobd/net/api"
)

// A worker whose link ends without a word is told as down until one of its name is registered, and for
// a day at most; one that has said that it leaves is not.
func TestAWorkerThatIsGoneIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		begun := time.Now()
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, w := range b.registry.down(time.Now()) {
				got = append(got, fmt.Sprint(w.Name, w.Targets, " ", time.UnixMilli(w.Since).Sub(begun)))
			}
			if !slices.Equal(got, want) {
				t.Errorf("down are %q, want %q", got, want)
			}
		}
		killed, stopped := b.join("one", newPolls().handlers(), "a", "b"), b.join("two", newPolls().handlers(), "a")
		expect()
		ask(t, stopped, "register-worker", api.Registration{Name: "two", Targets: []string{"a"}, Leaving: true})
		_ = stopped.Close()
		time.Sleep(time.Minute)
		_ = killed.Close()
		expect("one[a b] 1m0s")
		again := b.join("one", newPolls().handlers(), "a")
		expect()
		_ = again.Close()
		expect("one[a] 1m0s")
		time.Sleep(rememberedFor)
		expect()
		old, newer := b.join("three", newPolls().handlers(), "a"), b.join("three", newPolls().handlers(), "a")
		_ = old.Close()
		expect() // a worker of its name is there
		_ = newer.Close()
		expect("three[a] 24h1m0s")
	})
}

// A master keeps so many in mind, those that it has missed last, with some of their targets.
func TestWorkersThatAreDownAreBounded(t *testing.T) {
	t.Parallel()
	b := newBubble(t, Config{})
	var m missed
	w := &worker{link: b.client}
	for i := range 2 * mostMissed {
		w.profile.Store(&profile{name: fmt.Sprint("w", i), targets: make([]string, 2*mostOfAMissed)})
		m.add(w, time.Now())
	}
	list := m.list(time.Now())
	last := list[len(list)-1]
	if len(list) != mostMissed || last.Name != fmt.Sprint("w", 2*mostMissed-1) || len(last.Targets) != mostOfAMissed || last.TargetsCut != mostOfAMissed {
		t.Errorf("%d are kept, the last is %+v", len(list), last)
	}
}

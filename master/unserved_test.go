package master

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"jobd/net/api"
)

// A target that was poked, and that nobody serves, is told with the time of the first poke, until
// somebody does.
func TestTargetsThatNobodyServesAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		status := func() (list []api.UnservedTarget, count int) {
			synctest.Wait()
			return b.unserved(b.registry.all())
		}
		begun := time.Now()
		poked := func(after time.Duration, target string) api.UnservedTarget {
			return api.UnservedTarget{Target: target, Since: begun.Add(after).UnixMilli()}
		}
		expect := func(want ...api.UnservedTarget) {
			t.Helper()
			if got, count := status(); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) || count != len(want) {
				t.Errorf("%d: %+v, want %+v", count, got, want)
			}
		}
		b.join("one", newPolls().handlers(), "a")
		b.do("poke", `{"targets":["a","x","Y"]}`)
		expect(poked(0, "x"), poked(0, "Y"))
		time.Sleep(time.Minute)
		b.do("poke", `{"targets":["z","x"]}`)
		expect(poked(0, "x"), poked(0, "Y"), poked(time.Minute, "z"))
		b.join("two", newPolls().handlers(), "x", "y")
		expect(poked(0, "Y"), poked(time.Minute, "z"))
		b.joinAs(api.Registration{Name: "three", Targets: []string{"y"}, Folds: true}, newPolls().handlers())
		expect(poked(time.Minute, "z"))
		b.do("poke", `{"targets":["x"]}`)
		expect(poked(time.Minute, "z"))
	})
}

// A poke that nobody serves is forgotten a day after the last one, as that of a target that is misspelt.
func TestAMistypedPokeIsForgotten(t *testing.T) {
	t.Parallel()
	var l ledger
	now := time.Now()
	l.enter([]string{"mial", "mail"}, now)
	l.enter([]string{"mail"}, now.Add(time.Hour))
	waiting := func(after time.Duration) (names []string) {
		for _, u := range l.waiting(nil, now.Add(after)) {
			names = append(names, u.Target)
		}
		return names
	}
	if got := waiting(rememberedFor - 1); !slices.Equal(got, []string{"mial", "mail"}) {
		t.Errorf("within a day: %q", got)
	}
	if got := waiting(rememberedFor); !slices.Equal(got, []string{"mail"}) {
		t.Errorf("after a day: %q", got)
	}
}

// However many there are, a status names some, those that have waited longest, and counts the rest.
func TestTargetsThatNobodyServesAreBounded(t *testing.T) {
	t.Parallel()
	m, now := New(Config{}), time.Now()
	for i := range 3 * mostUnserved {
		m.ledger.enter([]string{fmt.Sprint("t", i)}, now.Add(time.Duration(i)*time.Second))
	}
	m.ledger.settle([]string{"t0"}, now)
	m.ledger.enter([]string{"t0"}, now.Add(time.Hour)) // it was answered before: it waits since now
	list, count := m.unserved(nil)
	if len(list) != mostUnserved || count != 3*mostUnserved || list[0].Target != "t1" {
		t.Errorf("%d of %d, the first is %s", len(list), count, list[0].Target)
	}
}

package master

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	jobnet "jobd/net"
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

// A poke that nobody serves is forgotten after ten minutes in which no row of its target waits, and
// not while one does, or nobody can tell.
func TestAMistypedPokeIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			list, _ := b.unserved(b.registry.all())
			for _, u := range list {
				got = append(got, u.Target)
			}
			if !slices.Equal(got, want) {
				t.Errorf("nobody serves %q, want %q", got, want)
			}
		}
		b.do("poke", `{"targets":["mial"]}`)
		time.Sleep(time.Hour)
		expect("mial") // no worker can tell

		var rows atomic.Value
		rows.Store(`{"mial":{"count":1},"due":{"count":0,"due":1},"x":{"count":0,"error":"away"}}`)
		b.join("old", newPolls().handlers(), "a")
		b.join("one", map[string]jobnet.Handler{"waiting": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			return json.RawMessage(`{"targets":` + rows.Load().(string) + `}`), nil
		}}, "a")
		b.do("poke", `{"targets":["due","x"]}`)
		time.Sleep(time.Hour)
		expect("mial", "due", "x")
		rows.Store(`{"mial":{"count":0},"due":{"count":0},"x":{"count":0,"error":"away"}}`)
		time.Sleep(idleFor / 2)
		b.do("poke", `{"targets":["due"]}`)
		time.Sleep(idleFor/2 - idleLook)
		expect("mial", "due", "x")
		time.Sleep(2 * idleLook)
		expect("due", "x")
		time.Sleep(idleFor / 2)
		expect("x")
	})
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

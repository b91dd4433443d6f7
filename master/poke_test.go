package master

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
)

func TestUnservedPokesAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		b.do("poke", `{"targets":["x","y"]}`)
		b.do("poke", `{"targets":["x","z"]}`)
		synctest.Wait()
		one := newPolls()
		link := b.join("one", one.handlers(), "a", "x", "z")
		one.expect(t, "0s: x z")
		time.Sleep(2 * time.Minute) // the bubble's clock
		ask(t, link, "register-worker", api.Registration{Name: "one", Targets: []string{"y"}})
		one.expect(t, "0s: x z", "2m0s: y")
		if workers := b.registry.all(); len(workers) != 1 || workers[0].profile.Load().serves("a") || !workers[0].profile.Load().serves("y") {
			t.Error("the second registration did not replace the first in its place")
		}
	})
}

// A worker that does not answer a poll is asked again, until it or another one has answered: its
// registration may be half dead, and nobody else may know of the poke.
func TestPokeLastsUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{PingInterval: time.Hour})
		var asked atomic.Int64
		b.join("hung", map[string]jobnet.Handler{"poll": func(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
			asked.Add(1)
			return hang(ctx, link, request)
		}}, "a", "b")
		b.do("poke", `{"targets":["a"]}`)
		b.do("poke", `{"targets":["b"]}`)
		time.Sleep(10*answerTimeout + time.Second)
		if asked.Load() < 10 {
			t.Errorf("the worker was asked %d times in %v", asked.Load(), 10*answerTimeout)
		}
		good := newPolls()
		b.join("good", good.handlers(), "a", "b")
		good.expect(t, "0s: a b")
		time.Sleep(answerTimeout)
		before := asked.Load()
		time.Sleep(10 * answerTimeout)
		check.Equal(t, asked.Load()-before, 0, "the worker was asked … times after another had answered")
	})
}

// An answer to an earlier poll settles no later poke.
func TestAnswerSettlesOnlyWhatWasAskedBefore(t *testing.T) {
	t.Parallel()
	var l ledger
	now := time.Now()
	l.enter([]string{"a", "b"}, now)
	l.enter([]string{"b"}, now.Add(time.Second))
	l.settle([]string{"a", "b", "c"}, now)
	if owed := l.owed([]string{"a", "b", "c"}); len(owed) != 1 || owed[0] != "b" {
		t.Errorf("owed are %q, want b", owed)
	}
}

// A target that a worker has left meanwhile must not keep its others from being polled.
func TestRefusedPollIsDivided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		var mu sync.Mutex
		var polled []string
		b.join("w", map[string]jobnet.Handler{"poll": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			if strings.Contains(string(request.Data), "left") {
				return nil, jobnet.Refusal("invalid target 'left'")
			}
			mu.Lock()
			defer mu.Unlock()
			polled = append(polled, string(request.Data))
			return "ok", nil
		}}, "a", "left", "b")
		b.do("poke", `{"targets":["a","left","b"]}`)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(polled) // they are asked for beside each other
		check.Equal(t, strings.Join(polled, " "), `{"targets":["a"]} {"targets":["b"]}`, "polled for")
		if owed := b.ledger.owed([]string{"a", "left", "b"}); len(owed) != 1 || owed[0] != "left" {
			t.Errorf("owed are %q", owed)
		}
	})
}

func TestRememberedTargetsAreBounded(t *testing.T) {
	t.Parallel()
	var l ledger
	now := time.Now()
	owed := numbered("owed", maxRemembered)
	for part := range slices.Chunk(owed, maxRemembered/10) {
		if forgotten := l.enter(part, now); forgotten > 0 {
			t.Fatalf("%d targets were forgotten while there was room", forgotten)
		}
	}
	const more = 7
	for _, target := range numbered("more", more) {
		check.Equal(t, l.enter([]string{target}, now), 1, "targets were forgotten for one")
	}
	if n := len(l.allOwed()); n != maxRemembered || len(l.debts) != n || !slices.Equal(l.owed(owed[more-1:more+1]), owed[more:more+1]) {
		t.Errorf("%d targets are remembered, and not the newest", n)
	}
}

// A change of the ledger reaches the workers that register after it.
func TestWhatIsOwedFollowsTheLedger(t *testing.T) {
	t.Parallel()
	var l ledger
	now := time.Now()
	expectOwed := func(want ...string) {
		t.Helper()
		got := slices.Sorted(maps.Keys(l.allOwed()))
		check.Elements(t, got, want, "owed are")
	}
	expectOwed()
	l.enter([]string{"a", "b"}, now)
	expectOwed("a", "b")
	l.settle([]string{"a"}, now)
	expectOwed("b")
	l.enter([]string{"c"}, now)
	expectOwed("b", "c")
	l.settle([]string{"b", "c"}, now)
	expectOwed()
	l.enter([]string{"a"}, now)
	expectOwed("a")
}

func numbered(name string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(name, i)
	}
	return list
}

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
		b.joinAs(api.Registration{Name: "three", Targets: []string{"Y"}}, newPolls().handlers())
		expect(poked(time.Minute, "z"))
		b.do("poke", `{"targets":["x"]}`)
		expect(poked(time.Minute, "z"))
	})
}

// A poke that nobody serves is forgotten ten minutes after the last one of its target, and not while a row of it
// waits, or nobody can tell.
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
			check.Elements(t, got, want, "nobody serves")
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
		b.do("poke", `{"targets":["due"]}`)
		rows.Store(`{"mial":{"count":0},"due":{"count":0},"x":{"count":0,"error":"away"}}`)
		time.Sleep(2 * idleLook)
		expect("due", "x")
		time.Sleep(idleFor - 3*idleLook)
		expect("due", "x")
		time.Sleep(2 * idleLook)
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

// askedFor gives handlers that note what they are asked, and answer.
func askedFor(asked *[]string, name string) map[string]jobnet.Handler {
	note := func(answer string) jobnet.Handler {
		return func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			data := strings.Replace(string(request.Data), `,"by":"pipe"`, "", 1)
			*asked = append(*asked, name+" "+request.Type+" "+data)
			return json.RawMessage(answer), nil
		}
	}
	return map[string]jobnet.Handler{
		"run-manual":  note(`{"jobs":{"1":"done by ` + name + `"}}`),
		"send-signal": note(`{"1":true}`),
		"pause":       note(`"ok"`), "continue": note(`"ok"`), "recycle": note(`"ok"`),
	}
}

// What an agent says of itself reaches the registry; what it does not say is not sent, as by the
// original's workers.
func TestAgentSaysWhoItIs(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	agent := instanceAgent(address, "i", nil)
	start(t, agent.Run)
	await(t, m, []string{"a"})
	if p := m.registry.all()[0].profile.Load(); p.instance != "i" || p.name != "w" {
		t.Errorf("registered as %+v", p)
	}
	plain, err := json.Marshal(api.Registration{Name: "w", Targets: []string{"a"}})
	if err != nil || string(plain) != `{"name":"w","targets":["a"]}` {
		t.Errorf("%s, %v", plain, err)
	}
	_, err = clientOf(t, address).Request(within(t), "register-worker", map[string]any{"name": "w", "targets": []string{"a"}, "instance": 5})
	if err == nil || err.Error() != "'instance' must be string" {
		t.Errorf("an instance that is no name: %v", err)
	}
}

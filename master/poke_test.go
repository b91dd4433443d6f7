package master

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
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
		if more := asked.Load() - before; more != 0 {
			t.Errorf("the worker was asked %d times after another had answered", more)
		}
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
		if got := strings.Join(polled, " "); got != `{"targets":["a"]} {"targets":["b"]}` {
			t.Errorf("polled for %s", got)
		}
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
		if forgotten := l.enter([]string{target}, now); forgotten != 1 {
			t.Errorf("%d targets were forgotten for one, want 1", forgotten)
		}
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
		got := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(l.allOwed()))...)))
		if !slices.Equal(got, want) {
			t.Errorf("owed are %q, want %q", got, want)
		}
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

// The table's collation may take names for one that the wire tells apart. A poke reaches workers
// that say so, under the names that they have; all others are polled for the very name only.
func TestPokeReachesWorkersOfLikeNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		exact, like, unlike, both := newPolls(), newPolls(), newPolls(), newPolls()
		b.join("exact", exact.handlers(), "Straße ", "x")
		b.joinAs(api.Registration{Name: "like", Targets: []string{"y", "straße"}, Folds: true}, like.handlers())
		b.joinAs(api.Registration{Name: "unlike", Targets: []string{"strasse"}, Folds: true}, unlike.handlers())
		b.join("both", both.handlers(), "STRAßE", "Straße ")
		synctest.Wait()
		b.do("poke", `{"targets":["Straße "]}`)
		exact.expect(t, "0s: Straße ")
		like.expect(t, "0s: straße")
		unlike.expect(t)
		both.expect(t, "0s: Straße ")
	})
}

// A like name settles a poke only where the worker says that its table takes both for one.
func TestLikeNameSettlesOnlyWhereItIsTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		p := newPolls()
		link := b.join("w", p.handlers(), "reports")
		b.do("poke", `{"targets":["Reports"]}`)
		p.expect(t)
		if owed := b.ledger.owed([]string{"Reports"}); len(owed) != 1 {
			t.Error("a worker that may not serve the target settled it")
		}
		ask(t, link, "register-worker", api.Registration{Name: "w", Targets: []string{"reports"}, Folds: true})
		p.expect(t, "0s: reports")
		if owed := b.ledger.owed([]string{"Reports"}); len(owed) != 0 {
			t.Error("a worker whose table takes the names for one did not settle it")
		}
	})
}

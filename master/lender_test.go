package master

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"pgregory.net/rapid"
)

// borrower is a worker as a lender sees it: answers may not reach it.
type borrower struct {
	has   *float64
	wants bool
}

func (b *borrower) ask(l *lender, who string, now time.Time, reaches bool) {
	shares := l.lend(who, api.Borrowing{Rates: []api.SharedRate{{Target: "a", Starts: 100, Per: 1000, Wants: b.wants, Has: b.has}}}, now)
	if share, lent := shares.Shares["a"]; lent && reaches {
		b.has = &share
	}
}

func total(all map[string]*borrower) (sum float64) {
	for _, b := range all {
		if b.has != nil {
			sum += *b.has
		}
	}
	return sum
}

// All workers together never have more than the rate, whatever happens to answers, masters and
// wishes; and once nothing changes any more, those who want have nearly all of it, in equal parts.
func TestALenderNeverLendsMoreThanThereIs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_800_000_000, 0)
		l := newLender(now)
		all := map[string]*borrower{}
		for i := range rapid.IntRange(1, 6).Draw(t, "workers") {
			all[fmt.Sprint(i)] = &borrower{}
		}
		pick := func() string { return fmt.Sprint(rapid.IntRange(0, len(all)-1).Draw(t, "who")) }
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				b := all[pick()]
				b.wants = !b.wants
			case 1: // all workers ask within the time that a new master waits
				now = now.Add(time.Second)
				l = newLender(now)
				for who, b := range all {
					b.ask(l, who, now, rapid.Bool().Draw(t, "reaches"))
				}
				now = now.Add(settleTime)
			default:
				now = now.Add(500 * time.Millisecond)
				who := pick()
				all[who].ask(l, who, now, rapid.IntRange(0, 3).Draw(t, "lost") > 0)
			}
			for who, b := range all { // nobody is away for longer than shares are kept
				if l.pools["a"] != nil && l.pools["a"].members[who] != nil {
					l.pools["a"].members[who].seen = now
				}
				_ = b
			}
			if sum := total(all); sum > 100.000001 {
				t.Fatalf("%v are lent, of 100", sum)
			}
		}
		now = now.Add(settleTime)
		want := 0
		for range 6 {
			want = 0
			for who, b := range all {
				b.ask(l, who, now, true)
				if b.wants {
					want++
				}
			}
		}
		if sum := total(all); math.Abs(sum-100) > 0.001 && (want > 0 || sum < 99) {
			t.Fatalf("%v are lent in the end, of 100", sum)
		}
		for who, b := range all {
			if least := 90 / float64(want); b.wants && *b.has < least {
				t.Fatalf("worker %s wants, and has %v, less than %v", who, *b.has, least)
			}
		}
	})
}

// A worker that does not ask any more keeps its share for a minute; then others have it.
func TestTheShareOfAWorkerThatIsGone(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	l := newLender(now.Add(-time.Hour))
	gone, stays := &borrower{wants: true}, &borrower{wants: true}
	gone.ask(l, "gone", now, true)
	if *gone.has != 100 {
		t.Errorf("alone it has %v", *gone.has)
	}
	stays.ask(l, "stays", now, true)
	if *stays.has != 0 {
		t.Errorf("%v were lent, though the other has all", *stays.has)
	}
	stays.ask(l, "stays", now.Add(shareKept), true)
	if *stays.has != 0 {
		t.Errorf("%v were lent too early", *stays.has)
	}
	stays.ask(l, "stays", now.Add(shareKept+time.Second), true)
	if *stays.has != 100 {
		t.Errorf("it has %v, though the other is gone", *stays.has)
	}
}

// A master that was started again lends nobody more than it has before the others are back: a worker
// may have found it away twice, and waited for nearly 10 s each time that it tried.
func TestAMasterThatWasStartedAgainWaitsForItsWorkers(t *testing.T) {
	t.Parallel()
	half := func() *float64 { has := 50.0; return &has }
	all := map[string]*borrower{"early": {has: half(), wants: true}, "late": {has: half(), wants: true}, "new": {wants: true}}
	begun := time.Unix(1_800_000_000, 0)
	l := newLender(begun)
	for second := range 60 {
		now := begun.Add(time.Duration(second) * time.Second)
		all["early"].ask(l, "early", now, true)
		all["new"].ask(l, "new", now, true)
		if second >= 14 {
			all["late"].ask(l, "late", now, true)
		}
		if sum := total(all); sum > 100.000001 {
			t.Fatalf("after %d s %v are lent, of 100", second, sum)
		}
	}
	for who, b := range all {
		if b.has == nil || math.Abs(*b.has-100.0/3) > 0.01 {
			t.Errorf("%s has %v in the end", who, b.has)
		}
	}
}

// One that has gone, and says that it has more than there is, keeps no share for longer than others that
// are cut off, and is not remembered; neither are rates that nobody has.
func TestALenderForgetsWhoHasGone(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_800_000_000, 0)
	l := newLender(begun)
	at, much := begun.Add(settleTime), 1e300
	for n := range 1000 {
		rates := []api.SharedRate{{Target: "a", Starts: 100, Per: 1000, Has: &much}, {Target: fmt.Sprint(n), Starts: 1, Per: 1}}
		l.lend(fmt.Sprint("gone", n), api.Borrowing{Rates: rates}, at)
	}
	at = at.Add(shareKept + time.Second)
	b := &borrower{wants: true}
	b.ask(l, "here", at, true)
	if len(l.pools) != 1 || len(l.pools["a"].members) != 1 || b.has == nil || *b.has != 100 {
		t.Errorf("%d rates are remembered, %+v; lent is %v", len(l.pools), l.pools["a"], b.has)
	}
}

// A worker is lent the whole of a rate that nobody else asks for, hears of changes without being
// registered anew, and keeps its share while the master is away.
func TestAnAgentBorrowsItsShare(t *testing.T) {
	t.Parallel()
	address, m, stop := serveMaster(t, Config{}, "s3cret")
	m.lender = newLender(time.Now().Add(-time.Hour))
	var rates atomic.Pointer[[]api.SharedRate]
	rates.Store(&[]api.SharedRate{})
	lent := make(chan map[string]float64, 100)
	agent := agentOf(address, targetsOf("a"), nil)
	agent.config.Rates = func() []api.SharedRate { return *rates.Load() }
	agent.config.OnLent = func(shares map[string]float64) { lent <- shares }
	start(t, agent.Run)
	await(t, m, []string{"a"})
	rates.Store(&[]api.SharedRate{{Target: "a", Starts: 30, Per: 1000, Wants: true}})
	agent.Changed()
	select {
	case shares := <-lent:
		if shares["a"] != 30 {
			t.Errorf("%v were lent, want all 30", shares)
		}
	case <-time.After(patience):
		t.Fatal("nothing was lent")
	}
	stop()
	for len(lent) > 0 {
		if shares := <-lent; shares["a"] != 30 {
			t.Errorf("then %v", shares)
		}
	}
}

// A master that does not know the request is asked once over a connection.
func TestAnAgentOfAnOlderMasterBorrowsNothing(t *testing.T) {
	t.Parallel()
	address := fakeMaster(t, func([]string) error { return nil })
	asked := make(chan struct{}, 100)
	log := newLogged()
	agent := agentOf(address, targetsOf("a"), nil)
	agent.config.Rates = func() []api.SharedRate {
		asked <- struct{}{}
		return []api.SharedRate{{Target: "a", Starts: 1, Per: 1000}}
	}
	agent.config.OnLent = func(map[string]float64) { t.Error("something was lent") }
	agent.config.Logger = log.logger()
	start(t, agent.Run)
	log.await(t, "lends no shares of rates")
	agent.Changed()
	if n := len(asked); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestLendIsForRegisteredWorkers(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{}, "s3cret")
	link := connect(t, address, jobnet.LinkConfig{Password: "s3cret"})
	fails := func(data any, want string) {
		t.Helper()
		if _, err := link.Request(within(t), api.Lend.Name, data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", data, err, want)
		}
	}
	rate := api.SharedRate{Target: "a", Starts: 1, Per: 1000}
	fails(api.Borrowing{Rates: []api.SharedRate{rate}}, "only a registered worker")
	ask(t, link, "register-worker", api.Registration{Name: "w", Targets: []string{"a"}})
	fails(map[string]any{}, "rates must be array")
	fails(map[string]any{"rates": []any{map[string]any{"target": "a", "starts": 0, "per": 1}}}, "starts and per must be greater than 0")
	fails(map[string]any{"rates": []any{map[string]any{"target": "a", "starts": 1, "per": 1, "has": -1}}}, "has must be a number of at least 0")
	fails(map[string]any{"rates": []any{map[string]any{"target": strings.Repeat("x", 256), "starts": 1, "per": 1}}}, "too long")
}

// Nobody is lent a share of a target that it does not serve.
func TestSharesAreOfTargetsThatOneServes(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	m.lender = newLender(time.Now().Add(-time.Hour))
	var rates atomic.Pointer[[]api.SharedRate]
	rates.Store(&[]api.SharedRate{{Target: "others", Starts: 30, Per: 1000}, {Target: "a", Starts: 30, Per: 1000}})
	lent := make(chan map[string]float64, 100)
	agent := agentOf(address, targetsOf("a"), nil)
	agent.config.Rates = func() []api.SharedRate { return *rates.Load() }
	agent.config.OnLent = func(shares map[string]float64) { lent <- shares }
	start(t, agent.Run)
	select {
	case shares := <-lent:
		if len(shares) != 1 || shares["a"] != 30 {
			t.Errorf("%v were lent", shares)
		}
	case <-time.After(patience):
		t.Fatal("nothing was lent")
	}
}

// A journal request reaches every worker, or the one that is named; what one answers does not
// depend on the others.
func TestJournalRequestsAreHandedOn(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{}, "s3cret")
	echo := func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
		return map[string]json.RawMessage{"got": request.Data}, nil
	}
	refuse := func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
		return nil, jobnet.Refusal("unknown journal cursor")
	}
	registered(t, address, "one", []string{"a"}, map[string]jobnet.Handler{"journal-next": echo})
	registered(t, address, "two", []string{"b"}, map[string]jobnet.Handler{"journal-next": refuse})
	registered(t, address, "old", []string{"c"}, nil)
	client := connect(t, address, jobnet.LinkConfig{Password: "s3cret"})

	expect(t, ask(t, client, "journal-next", map[string]any{"cursor": "x"}), `{"workers":[
		{"name":"one","data":{"got":{"cursor":"x"}}},
		{"name":"two","error":"unknown journal cursor"},
		{"name":"old","error":"unknown request type: 'journal-next'"}]}`)
	expect(t, ask(t, client, "journal-next", map[string]any{"worker": "two"}), `{"workers":[{"name":"two","error":"unknown journal cursor"}]}`)

	var all struct{ Workers []api.RelayedAnswer }
	if err := json.Unmarshal(ask(t, client, "journal-next", nil), &all); err != nil {
		t.Fatal(err)
	}
	expect(t, ask(t, client, "journal-next", map[string]any{"worker": all.Workers[0].Address}), `{"workers":[{"name":"one"}]}`)

	for data, want := range map[string]string{`{"worker":"three"}`: "worker 'three' not found", `{"worker":5}`: "'worker' must be string"} {
		if _, err := client.Request(within(t), "journal-next", json.RawMessage(data)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", data, err, want)
		}
	}
}

// An id that JavaScript does not hold exactly passes both ways as a string of its digits, and is
// not rounded.
func TestIdsOf64BitsPassTheMaster(t *testing.T) {
	t.Parallel()
	const first, last = "-9223372036854775808", "9223372036854775807"
	address, _, _ := serveMaster(t, Config{}, "s3cret")
	got := make(chan string, 10)
	registered(t, address, "w", []string{"a"}, map[string]jobnet.Handler{
		"run-manual": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			got <- string(request.Fields()["ids"])
			return json.RawMessage(`{"jobs":{"` + first + `":"one","` + last + `":"two","-5":"three"}}`), nil
		},
		"send-signal": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			got <- string(request.Fields()["jobs"])
			return json.RawMessage(`{"` + first + `":true,"` + last + `":false}`), nil
		},
	})
	client := clientOf(t, address)
	expect(t, ask(t, client, "run-manual", json.RawMessage(
		`{"jobs":[{"id":"`+first+`","target":"a"},{"id":"`+last+`","target":"a"},{"id":-5,"target":"a"}]}`)),
		`{"jobs":{"`+first+`":"one","`+last+`":"two","-5":"three"}}`)
	if ids, want := <-got, `["`+first+`","`+last+`",-5]`; ids != want {
		t.Errorf("the worker got %s, want %s", ids, want)
	}
	expect(t, ask(t, client, "send-signal", json.RawMessage(
		`{"jobs":[{"id":"`+first+`","signal":0,"target":"a"},{"id":"`+last+`","signal":15,"target":"a"}]}`)),
		`{"`+first+`":true,"`+last+`":false}`)
	if jobs, want := <-got, `{"`+first+`":0,"`+last+`":15}`; jobs != want {
		t.Errorf("the worker got %s, want %s", jobs, want)
	}
	for _, id := range []string{`9223372036854775807`, `"5"`, `"9223372036854775808"`, `"x"`, `1.5`} {
		_, err := client.Request(within(t), "run-manual", json.RawMessage(`{"jobs":[{"id":`+id+`,"target":"a"}]}`))
		if err == nil || err.Error() != "'id' must be integer" {
			t.Errorf("%s: %v", id, err)
		}
	}
}

package master

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"jobd/net/api"
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

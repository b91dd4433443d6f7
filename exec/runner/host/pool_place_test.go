package host

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"jobd/exec/runner/wire"
)

// hangs are pools none of whose processes ever gets ready.
func hangs(n int) (all []wire.Pool) {
	for i := range n {
		p := pooled("pool", 2)
		p.Target, p.Argv, p.BootTimeout = fmt.Sprint("hangs", i), []string{"/bin/sleep", "3000"}, time.Hour
		all = append(all, p)
	}
	return all
}

func quickTimes(ps *pools) { ps.times.quick = 30 * time.Millisecond }

// Regression: two processes that hung while they loaded kept all other targets from having any.
func TestLaunchersThatHangHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	for i, mode := range []string{"fork", "pool", "fork", "pool"} {
		slow := i > 1
		t.Run(fmt.Sprintf("%s, slow: %t", mode, slow), func(t *testing.T) {
			t.Parallel()
			b := newBenchWith(t, quickTimes)
			good := pooled(mode, 2)
			good.MaxJobs = 2
			if slow { // as all are where the processors are busy
				good.Argv = append([]string{"/bin/sh", "-c", `sleep 0.05; exec "$@"`, "-"}, good.Argv...)
			}
			b.pools(append(hangs(4), good)...)
			for job := int64(1); job <= 20; job++ {
				if done := b.run(job, work(mode, "echo works", `print "works\n"`)); string(done.Stdout.Kept) != "works\n" {
					t.Fatalf("done %+v", done)
				}
			}
		})
	}
}

// However many do, few are started, and those that were quick before have a place all the same.
func TestFewLoadAtATime(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, quickTimes)
	good := pooled("pool", 1)
	b.pools(good)
	b.stands("it is ready", func(s wire.Standing) bool { return s.Ready == 1 })
	b.pools(append(hangs(mostLoading+2), good)...)
	b.until("all places are taken", func() bool {
		loading := 0
		for _, s := range b.standings {
			loading += s.Booting
		}
		return loading == mostUnknown
	})
	for job := int64(1); job <= 10; job++ {
		b.run(job, "DO=true")
		b.inReactor(func(ps *pools) {
			if len(ps.loading) > mostLoading {
				t.Errorf("%d processes load", len(ps.loading))
			}
		})
	}
}

// Regression: while many slow processes were replaced, a quick target waited for its turn among them.
func TestSlowReplacementsHoldUpNoQuickTarget(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, quickTimes)
	closed := filepath.Join(t.TempDir(), "closed")
	var all []wire.Pool
	for i := range 4 {
		p := pooled("pool", 3)
		p.Target = fmt.Sprint("slow", i)
		p.Argv[2] = "while test -e " + closed + "; do read -t 0.02 <> <(:); done; " + shellLoop
		all = append(all, p)
	}
	quick := pooled("pool", 1)
	quick.MaxJobs = 1
	b.pools(append(all, quick)...)
	ready := func(n int) func() bool {
		return func() bool {
			for _, s := range b.standings {
				n -= s.Ready
			}
			return n <= 0
		}
	}
	b.until("all are ready", ready(13))
	if err := os.WriteFile(closed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.out.Post(wire.Message{Kind: wire.Recycle, Text: "recycle", Targets: []string{"slow0", "slow1", "slow2", "slow3"}})
	b.stands("one is replaced", func(s wire.Standing) bool { return s.Booting > 0 })
	for job := int64(1); job <= 20; job++ {
		b.run(job, "DO=true")
	}
	b.inReactor(func(ps *pools) {
		for target, p := range ps.byTarget {
			if target != "mail" && p.recycled["recycle"] > 0 {
				t.Errorf("a process of %s was replaced: it shows nothing", target)
			}
		}
	})
	if err := os.Remove(closed); err != nil {
		t.Fatal(err)
	}
	b.until("all are replaced", func() bool {
		n := int64(0)
		for _, s := range b.standings {
			n += s.Recycled["recycle"]
		}
		return n == 12
	})
}

// Who has a place, and who gets one, by the rules of the table in pool_place.go.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	now := 100 * second
	ps := &pools{times: usualTimes, loading: map[*place]bool{}}
	loads := func(n int, age int64, p pool) {
		for range n {
			p := p
			p.pools = ps
			ps.loading[&place{&p, now - age}] = true
		}
	}
	known, unknown, slow, failing := pool{boots: 1}, pool{}, pool{boots: 1, slow: true}, pool{boots: 1, slow: true, failure: "it hangs"}
	inNeed := pool{boots: 1, waiting: []*child{nil}}
	for _, test := range []struct {
		what string
		load func()
		want [5]bool // of known, unknown, slow, failing, inNeed
	}{
		{"nothing", func() {}, [5]bool{true, true, true, true, true}},
		{"two that are quick", func() { loads(2, 0, known) }, [5]bool{false, false, true, true, false}},
		{"two that have got slow", func() { loads(2, 2*second, known) }, [5]bool{true, true, false, false, true}},
		{"one that is slow and failed", func() { loads(1, 0, failing) }, [5]bool{true, true, true, false, true}},
		{"two that hang", func() { loads(2, 20*second, failing) }, [5]bool{true, true, true, true, true}},
		{"six that hang", func() { loads(6, 20*second, failing) }, [5]bool{true, false, true, true, true}},
		{"eight that hang", func() { loads(8, 20*second, failing) }, [5]bool{false, false, false, false, true}},
	} {
		clear(ps.loading)
		test.load()
		c := ps.crowd(now)
		if got := [5]bool{c.takes(&known), c.takes(&unknown), c.takes(&slow), c.takes(&failing), c.takes(&inNeed)}; got != test.want {
			t.Errorf("%s load: %v, want %v", test.what, got, test.want)
		}
	}
}

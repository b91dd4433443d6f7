package exec_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

// in is a time from now on, in seconds since 1970.
func in(d time.Duration) int64 { return time.Now().Add(d).Unix() }

// A bubble's clock begins at a whole second, and stands while anything runs: what is due at a second
// starts within it, or the clock has moved on.
func TestARowIsStartedInTheSecondInWhichItIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(
			delayed(1, "a", journal.Plan{RunAt: in(90 * time.Second)}), delayed(2, "a", journal.Plan{RunAt: in(5 * time.Hour)}),
			delayed(3, "b", journal.Plan{RunAt: in(26 * time.Hour)}), delayed(4, "b", journal.Plan{RunAt: in(-time.Hour)}),
		)
		_, r, _ := newMemory(t, tab, nil)
		for _, want := range []int64{4, 1, 2, 3} {
			p := <-r.started
			due := time.Unix(tab.plan(want).RunAt, 0)
			if late := time.Since(due); p.spec.Job != want || want != 4 && (late < 0 || late >= time.Second) {
				t.Errorf("job %d started %s late; job %d is the next", p.spec.Job, late, want)
			}
			p.exit(0)
		}
		tab.mu.Lock()
		defer tab.mu.Unlock()
		if most := 26*6 + 20; tab.claims > most { // each ten minutes the server's clock is asked
			t.Errorf("the table was asked %d times in a day", tab.claims)
		}
	})
}

// plan is what a row says about time.
func (t *table) plan(id int64) journal.Plan {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *t.rows[id].Plan
}

// A due row that somebody has locked is looked for ever less often, once a second at most.
func TestADueRowThatSomebodyHoldsKeepsNobodyBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(delayed(1, "a", journal.Plan{RunAt: in(time.Second)}))
		tab.locked[1] = true
		_, r, _ := newMemory(t, tab, nil)
		time.Sleep(time.Minute)
		tab.mu.Lock()
		if tab.claims > 120 {
			t.Errorf("%d claims in a minute", tab.claims)
		}
		clear(tab.locked)
		tab.mu.Unlock()
		(<-r.started).exit(0)
	})
}

// The server's clock says when a row is due, also where it is set while the worker sleeps.
func TestTheServersClockCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		tab := newTable(delayed(1, "a", journal.Plan{RunAt: in(10 * time.Minute)}), delayed(2, "a", journal.Plan{RunAt: in(5 * time.Hour)}))
		tab.ahead = time.Minute
		m, r, _ := newMemory(t, tab, nil)
		p := <-r.started
		if got := time.Since(began).Truncate(time.Second); got != 9*time.Minute {
			t.Errorf("started after %s, want 9 minutes", got)
		}
		p.exit(0)
		tab.change(func() { tab.ahead = 3 * time.Hour })
		p = <-r.started
		if got := time.Since(began); got < 2*time.Hour || got >= 2*time.Hour+time.Second {
			t.Errorf("started after %s, want two hours", got)
		}
		p.exit(0)
		synctest.Wait()
		if n := strings.Count(m.told.String(), "differ"); n != 2 {
			t.Errorf("the log tells %d times of other clocks, want twice:\n%s", n, m.told.String())
		}
	})
}

// A server may be minutes ahead or behind. A row that it calls due is not late by the worker's clock, and
// a retry is as far from its failure as the terms say.
func TestLatenessAndBackoffGoByTheServersClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-370 * time.Second, 370 * time.Second} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				planned := time.Now().Add(ahead).Truncate(time.Minute)
				tab := newTable(delayed(1, "a", journal.Plan{Schedule: fmt.Sprintf("hourly :%02d", planned.Minute()), RunAt: planned.Unix()}))
				tab.insert(journal.Row{Job: 2, Target: "a", Status: journal.RowWaiting, Plan: &journal.Plan{}})
				tab.ahead = ahead
				m, r, _ := newMemory(t, tab, func(c *jobexec.Config) {
					c.SkipMissed = true
					c.Terms = map[string]jobexec.Terms{"a": {Attempts: 2, Backoff: jobexec.Backoff{First: 10 * time.Second, Most: time.Minute}}}
				})
				for range 2 {
					(<-r.started).exit(1)
				}
				synctest.Wait()
				if n := len(m.of(1, journal.KindPlanned)); n != 0 {
					t.Errorf("a row that is %s late was planned anew", tab.now().Sub(planned))
				}
				for id := int64(1); id <= 2; id++ {
					if wait := time.Unix(tab.plan(id).RunAt, 0).Sub(tab.now()); wait < 8*time.Second || wait > 13*time.Second {
						t.Errorf("job %d is tried again after %s, want 10 s or a fifth more or less", id, wait)
					}
				}
			})
		})
	}
}

// While each claim is full nobody asks what is due next. The rows tell what the server's clock says.
func TestAFloodOfRowsTellsTheServersClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		for id := int64(1); id <= 20; id++ {
			tab.insert(journal.Row{Job: id, Target: "b", Status: journal.RowWaiting, Plan: &journal.Plan{}})
		}
		m, r, _ := newMemory(t, tab, func(c *jobexec.Config) {
			c.Terms = map[string]jobexec.Terms{"b": {Attempts: 2, Backoff: jobexec.Backoff{First: 10 * time.Second, Most: 10 * time.Second}}}
		})
		p := <-r.started
		for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
			tab.change(func() { tab.ahead = ahead })
			p.exit(0) // its claim is of before; the next one tells
			p = <-r.started
			p.exit(1)
			next := <-r.started
			synctest.Wait() // the row shows the end, too
			if wait := time.Unix(tab.plan(p.spec.Job).RunAt, 0).Sub(tab.now()); wait < 8*time.Second || wait > 11*time.Second {
				t.Errorf("%s ahead: the retry is due after %s, want 10 s", ahead, wait)
			}
			p = next
		}
		p.exit(0)
		if n := strings.Count(m.told.String(), "the clock of the database server was set"); n != 2 {
			t.Errorf("the log tells %d times of the clock, want twice:\n%s", n, m.told.String())
		}
	})
}

// One that is inserted later and due earlier is found where somebody pokes.
func TestAPokeFindsARowThatIsDueEarlier(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(delayed(1, "a", journal.Plan{RunAt: in(time.Hour)}))
		_, r, w := newMemory(t, tab, nil)
		time.Sleep(time.Second)
		tab.insert(delayed(2, "a", journal.Plan{RunAt: in(5 * time.Minute)}))
		w.PollAll()
		for _, want := range []int64{2, 1} {
			p := <-r.started
			if late := time.Since(time.Unix(tab.plan(want).RunAt, 0)); p.spec.Job != want || late < 0 || late >= time.Second {
				t.Errorf("job %d is started, %s late; job %d is due", p.spec.Job, late, want)
			}
			p.exit(0)
		}
	})
}

// Others are told of a row that is due while no slot is free here.
func TestOthersAreToldOfADueRowWithoutASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		told := make(chan time.Duration, 10)
		tab := newTable(delayed(1, "b", journal.Plan{Schedule: "every 1h"}))
		_, r, w := newMemory(t, tab, func(c *jobexec.Config) {
			c.OnRetried = func([]string) { told <- time.Since(began).Truncate(time.Second) }
		})
		(<-r.started).exit(0)
		time.Sleep(time.Minute)
		tab.insert(waiting(2, "b"))
		w.PollAll()
		p := <-r.started
		if at := <-told; at != time.Hour {
			t.Errorf("that it is due was told after %s", at)
		}
		p.exit(0)
	})
}

func TestATableWithoutDelaysIsNotAskedForThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(waiting(1, "a"))
		_, r, _ := newMemory(t, tab, func(c *jobexec.Config) { c.Again = false })
		p := <-r.started
		if env := strings.Join(p.spec.Env, " "); env != "LANG=C" {
			t.Errorf("the job is told %q", env)
		}
		p.exit(1)
		time.Sleep(3 * time.Hour)
		tab.mu.Lock()
		defer tab.mu.Unlock()
		if tab.nextDues != 0 {
			t.Errorf("the table was asked %d times", tab.nextDues)
		}
	})
}

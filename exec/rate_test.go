package exec_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

// limited is a worker whose target a has a rate.
func limited(t *testing.T, r jobexec.Rate, rows int64) *fixture {
	table := newTable()
	for id := range rows {
		table.rows[id+1] = waiting(id+1, "a")
	}
	f := newFixture(t, table, func(c *jobexec.Config) {
		c.Targets = map[string]int{"a": 100}
		c.Terms = map[string]jobexec.Terms{"a": {Rate: r}}
	})
	f.start()
	return f
}

func TestARateHoldsBackClaims(t *testing.T) {
	t.Parallel()
	f := limited(t, jobexec.Rate{Starts: 1, Per: time.Hour}, 5)
	f.next().exit(0)
	f.until("the rate is used up", func(s jobexec.Status) bool {
		a := s.Targets["a"]
		return a.Length == 0 && strings.Contains(a.Why, "its rate of 1/h is used up; the next start may be in ")
	})
	_ = f.worker.Poll(nil)
	f.none()
	for id := int64(2); id <= 5; id++ {
		if got := f.table.status(id); got != journal.RowWaiting {
			t.Errorf("job %d is %s", id, got)
		}
	}
}

// Nobody polls: the worker comes back by itself when there are starts in hand again.
func TestAWorkerComesBackWhenItsRateAllows(t *testing.T) {
	t.Parallel()
	f := limited(t, jobexec.Rate{Starts: 50, Per: time.Second}, 20)
	for range 20 {
		f.next().exit(0)
	}
}

// It does so beside rows that are due much later, for which it looks at clocks only.
func TestARateBesideRowsThatAreDueLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rows, each = 20, 500 * time.Millisecond
		table := newTable(delayed(100, "b", journal.Plan{RunAt: in(time.Hour)}))
		for id := range int64(rows) {
			table.rows[id+1] = waiting(id+1, "a")
		}
		begun := time.Now()
		_, r, _ := newMemory(t, table, func(c *jobexec.Config) {
			c.Terms = map[string]jobexec.Terms{"a": {Rate: jobexec.Rate{Starts: 2, Per: time.Second}}}
		})
		for range rows {
			p := <-r.started
			p.exit(0)
		}
		if took := time.Since(begun); took > rows*each+time.Second {
			t.Errorf("%d starts took %s", rows, took)
		}
	})
}

// A job that is run by hand is not held up, and counts.
func TestAManualJobIsNotHeldUpByARate(t *testing.T) {
	t.Parallel()
	table := newTable(waiting(1, "a"), manual(2, "a"))
	f := newFixture(t, table, func(c *jobexec.Config) {
		c.Terms = map[string]jobexec.Terms{"a": {Rate: jobexec.Rate{Starts: 1, Per: time.Hour}}}
	})
	f.start()
	f.next().exit(0)
	go func() { _, _ = f.worker.RunManual(t.Context(), []int64{2}, "me") }()
	if p := f.next(); p.spec.Job != 2 {
		t.Errorf("job %d was started", p.spec.Job)
	}
}

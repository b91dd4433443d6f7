package pressure

import (
	"fmt"
	"testing"

	"jobd/tests/harness"
)

// A backlog that no worker can do at once, and two targets that share it.
const backlog = 20_000

// What the workers of these tests may have claimed: slots, and prefetch beyond them for each target.
const (
	slots    = 4 + 2
	prefetch = 3
	mayHold  = slots + 2*prefetch
)

// pressed starts a worker on the backlog and waits until it holds what it may.
func (s *site) pressed(others ...harness.Settings) *worker {
	s.t.Helper()
	s.InsertMany(s.t, backlog, "a", "waiting")
	s.Exec(s.t, "UPDATE jobs SET target = 'b' WHERE id % 2 = 0")
	settings := harness.Settings{"prefetch": fmt.Sprint(prefetch)}.With(others...)
	w := s.start("pressed", s.gated(), map[string]int{"a": 4, "b": 2}, settings)
	s.AwaitCount(s.t, slots, "status = 'running'")
	s.AwaitCount(s.t, mayHold, "status IN ('accepted', 'running')")
	w.awaitLength(mayHold) // the table shows a claim before the worker has heard that it was committed
	return w
}

// Launchers that never end hold their slots, and nothing else: however often the worker is poked, it claims and
// starts no more, and opens nothing.
func TestSlowLauncherHoldsUpClaims(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.pressed()
	before, memory := descriptors(t, w.Pid), w.own()
	w.poll(2000)
	atMost(t, "rows claimed", s.held(), mayHold)
	atMost(t, "jobs in the queues", w.status().length(), mayHold)
	atMost(t, "descriptors of the worker", descriptors(t, w.Pid), before+8)
	atMost(t, "descriptors of the runner", descriptors(t, w.Runner(t)), 16+4*slots)
	atMost(t, "bytes more in memory", w.own()-memory, 16<<20)
	w.awaitLength(mayHold)
	atMost(t, "goroutines", goroutines(t, w.Daemon), 40+4*mayHold)
}

// With the database away after a claim, what runs ends into the journal, and the prefetched jobs wait. Nothing more
// is claimed, what the table is owed is what those jobs can tell, and asking again and again changes nothing.
func TestDatabaseAwayHoldsUpEverything(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		offline string
		remain  int // jobs that can't be started
	}{
		"prefetched jobs wait":                     {"wait", mayHold - slots},
		"prefetched jobs run on the journal alone": {"run", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			w := s.pressed(harness.Settings{"launch_offline": c.offline})
			s.link.Away()
			w.poll(1)
			s.open()
			w.awaitLength(c.remain)
			before, memory := descriptors(t, w.Pid), w.own()
			w.poll(2000)
			found := w.status()
			atMost(t, "jobs in the queues", found.length(), c.remain)
			atMost(t, "events that the table is owed", found.owed(), 4*mayHold) // accepted, running, started, done
			atMost(t, "claims in doubt", found.Doubted, mayHold)
			atMost(t, "rows claimed", s.held(), mayHold)
			atMost(t, "descriptors", descriptors(t, w.Pid), before+8)
			atMost(t, "bytes more in memory", w.own()-memory, 16<<20)
			s.link.Back()
			s.awaitAtMost(500, mayHold+slots)
		})
	}
}

// awaitAtMost waits until so many jobs are done, and counts all the time how many are claimed. Each slot
// may have one that has ended and whose row does not show it yet: where there are more, claims wait for just that.
func (s *site) awaitAtMost(done, most int) {
	s.t.Helper()
	harness.Until(s.t, func() string {
		atMost(s.t, "rows claimed", s.held(), most)
		if got := s.Count(s.t, "status = 'done'"); got < done {
			return fmt.Sprintf("%d jobs are done, not %d", got, done)
		}
		return ""
	})
}

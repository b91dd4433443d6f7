package torture

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"jobd/tests/harness"
)

// atRandom is a moment to strike at.
func atRandom(most time.Duration) <-chan time.Time { return time.After(rand.N(most)) }

// shortJob lasts long enough that there is always one that is struck in the middle.
const shortJob = `sleep 0.03`

// The worker is killed over and over while it drains the table; its runner lives.
func TestWorkerKilledAtRandom(t *testing.T) {
	t.Parallel()
	s := newSite(t, shortJob, map[string]int{"a": 8})
	s.insert(t, size(400, 10_000), "a")
	up, kills := []time.Duration{}, 0
	for ; kills < 8 || long() && s.Count(t, "status <> 'done'") > 0; kills++ {
		worker := s.launch(t, "jobd")
		<-atRandom(size(250*time.Millisecond, time.Second))
		worker.Kill(t)
	}
	_, took := s.start(t)
	up = append(up, took)
	s.awaitDone(t)
	found := s.audit(t)
	if found.unknown > 0 {
		t.Errorf("%d outcomes are unknown, though the runner lived", found.unknown)
	}
	suite.matrix.add(line{fault: "2 worker killed at random", runs: kills, tally: found, up: up})
}

// killBoth kills the worker and, at the same time, its runner.
func (s *site) killBoth(t *testing.T, worker *harness.Daemon) {
	t.Helper()
	runner := harness.RunnerOf(s.settings["journal_dir"])
	if runner != 0 {
		_ = syscall.Kill(runner, syscall.SIGKILL) // it may just have ended by itself
	}
	worker.Kill(t)
}

// With on_crash = requeue what ran is started again, once an attempt.
func TestBothKilledAtRandomAndRequeued(t *testing.T) {
	t.Parallel()
	s := newSite(t, shortJob, map[string]int{"a": 8}, harness.Settings{"on_crash": "requeue"})
	s.insert(t, size(200, 2_000), "a")
	kills := size(5, 30)
	for range kills {
		worker, _ := s.start(t)
		<-atRandom(250 * time.Millisecond)
		s.killBoth(t, worker)
	}
	s.start(t)
	s.awaitDone(t)
	found := s.audit(t)
	for a := range s.oracle.read(t).starts {
		if a.number > 3 {
			t.Errorf("job %d had an attempt %d", a.job, a.number)
		}
	}
	suite.matrix.add(line{fault: "2 the same, on_crash = requeue", runs: kills, tally: found})
}

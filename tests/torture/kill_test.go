package torture

import (
	"math/rand/v2"
	"strings"
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
	runner := runnerOf(s.settings["journal_dir"])
	if runner != 0 {
		_ = syscall.Kill(runner, syscall.SIGKILL) // it may just have ended by itself
	}
	worker.Kill(t)
}

// Worker and runner are killed at once: only what ran is unknown, and nothing runs twice.
func TestBothKilledAtRandom(t *testing.T) {
	t.Parallel()
	const slots = 8
	s := newSite(t, shortJob, map[string]int{"a": slots})
	s.insert(t, size(400, 10_000), "a")
	up, kills := []time.Duration{}, 0
	for ; kills < size(8, 100); kills++ {
		worker, took := s.start(t)
		up = append(up, took)
		<-atRandom(size(250*time.Millisecond, time.Second))
		s.killBoth(t, worker)
	}
	s.start(t)
	s.awaitDone(t)
	found := s.audit(t)
	if most := kills * slots; found.unknown > most {
		t.Errorf("%d outcomes are unknown after %d kills with at most %d jobs running", found.unknown, kills, slots)
	}
	suite.matrix.add(line{fault: "2 worker and runner killed at random", runs: kills, tally: found, up: up})
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

// Only the runner is killed: the worker starts another one and goes on.
func TestRunnerKilledAtRandom(t *testing.T) {
	t.Parallel()
	const slots = 8
	s := newSite(t, shortJob, map[string]int{"a": slots})
	s.insert(t, size(400, 5_000), "a")
	worker, _ := s.start(t)
	kills := 0
	for end := size(8, 50); kills < end && worker.Running() && s.Count(t, "status <> 'done'") > 0; {
		<-atRandom(300 * time.Millisecond)
		if runner := runnerOf(s.settings["journal_dir"]); runner != 0 && syscall.Kill(runner, syscall.SIGKILL) == nil {
			kills++
		}
	}
	s.awaitDone(t)
	found := s.audit(t)
	if most := kills * slots; found.unknown > most {
		t.Errorf("%d outcomes are unknown after %d kills with at most %d jobs running", found.unknown, kills, slots)
	}
	if !strings.Contains(worker.Output(), "runner is lost") {
		t.Error("the worker does not say that its runner was lost")
	}
	suite.matrix.add(line{fault: "2 runner killed at random", runs: kills, tally: found})
}

// Many jobs run when the worker is killed: they live on, and afterwards their outcomes are true and
// their output is whole.
func TestRunningJobsOutliveTheWorker(t *testing.T) {
	t.Parallel()
	const lines, lineBytes = 2 * 5000, 2 * 23893 // of seq 1 5000
	jobs := 200
	s := newSite(t, "seq 1 5000; "+atGate+"; seq 1 5000", map[string]int{"a": jobs})
	s.insert(t, jobs, "a")
	worker, _ := s.start(t)
	s.oracle.awaitStarts(t, jobs)
	s.AwaitCount(t, jobs, "status = 'running'")
	worker.Kill(t)

	_, took := s.start(t)
	if running := s.oracle.read(t).running(); running != jobs {
		t.Errorf("%d jobs run on, not %d", running, jobs)
	}
	s.oracle.open(t)
	s.awaitDone(t)
	found := s.audit(t)
	for _, o := range s.outcomes(t) {
		if want := lineBytes + len(o.stdout[strings.LastIndex(o.stdout, "out "):]); o.stdoutSize != want {
			t.Errorf("job %d: %d bytes of output, want %d in %d lines", o.id, o.stdoutSize, want, lines+1)
		}
	}
	if found.unknown > 0 {
		t.Errorf("%d outcomes are unknown, though the runner lived", found.unknown)
	}
	suite.matrix.add(line{fault: "3 worker killed, 200 jobs running", runs: 1, tally: found, up: []time.Duration{took}})
}

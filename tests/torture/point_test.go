package torture

import (
	"math/rand/v2"
	"testing"
	"time"

	"jobd/tests/harness"
)

// The worker is killed at each point of a job's way, and its next start, which may die there
// too, makes good what was left.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	points := []struct {
		name string
		most int // how often it is reached for certain while twelve jobs are run
	}{
		{"claim-selected", 2},
		{"accepted-appended", 8},
		{"commit-sent", 2},
		{"commit-answered", 2},
		{"running-appended", 10},
		{"running-mirrored", 3}, // of those that did not start with their claim
		{"start-asking", 10},
		{"start-asked", 10},
		{"started", 10},
		{"started-appended", 10},
		{"exit-seen", 10},
		{"done-appended", 10},
		{"forgotten", 10},
		{"update-sent", 3},
		{"done-mirrored", 10},
		{"checkpoint", 1},
	}
	for _, point := range points {
		t.Run(point.name, func(t *testing.T) {
			t.Parallel()
			killAt(t, point.name, point.most)
		})
	}
}

func killAt(t *testing.T, point string, most int) {
	harness.Armed(t)
	// A log of large output, so that emptying it takes a moment.
	script := shortJob + `; [ $(($1 % 12)) != 0 ] || head -c 400000 /dev/zero | tr '\0' x`
	s := newSite(t, script, map[string]int{"a": 4})
	runs, up := size(3, 100), []time.Duration{}
	for range runs {
		for range 1 + rand.IntN(2) {
			s.insert(t, 12, "a")
			harness.Arm(t, s.settings["journal_dir"], point, 1+rand.IntN(most))
			if worker := s.launch(t, armed); worker.ExitCode(t) != -1 {
				t.Fatalf("it was not killed but ended by itself:\n%s", worker.Output())
			}
		}
		harness.Disarm(t, s.settings["journal_dir"])
		worker, took := s.start(t)
		up = append(up, took)
		s.awaitDone(t)
		worker.Kill(t)
	}
	found := s.audit(t)
	if found.unknown > 0 {
		t.Errorf("%d outcomes are unknown, though the runner lived", found.unknown)
	}
	suite.matrix.add(line{fault: "1 worker killed: " + point, runs: len(up), tally: found, up: up})
}

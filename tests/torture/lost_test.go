package torture

import (
	"os"
	"testing"

	"jobd/tests/harness"
)

// The worker comes back on a new disk: what it had claimed is reported as unknown, what
// nobody had claimed runs, and nothing runs twice.
func TestJournalLost(t *testing.T) {
	t.Parallel()
	const slots, rest = 8, 20
	s := newSite(t, atGate, map[string]int{"a": slots}, polling, harness.Settings{"lost_after": "1s"})
	s.insert(t, 2*slots+rest, "a")
	worker, _ := s.start(t)
	s.oracle.awaitStarts(t, slots)
	s.AwaitCount(t, slots, "status = 'running'")
	s.AwaitCount(t, slots, "status = 'accepted'")
	worker.Kill(t)
	if err := os.RemoveAll(s.settings["journal_dir"]); err != nil {
		t.Fatal(err)
	}
	s.oracle.open(t)
	s.start(t)
	s.awaitDone(t)
	found := s.audit(t)
	if found.unknown != 2*slots {
		t.Errorf("%d outcomes are unknown, want the %d that were claimed", found.unknown, 2*slots)
	}
	if started := s.oracle.read(t).started(); started != slots+rest {
		t.Errorf("%d jobs were started, want %d", started, slots+rest)
	}
	suite.matrix.add(line{fault: "9 journal lost", runs: 1, tally: found})
}

package torture

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Two workers work on the same target at the two nodes of a Galera pair. Neither node knows the other's row locks, so
// SKIP LOCKED gives both the same rows; the one that commits later is told 1213, and has claimed nothing.
func TestGalera(t *testing.T) {
	t.Parallel()
	if os.Getenv("JOBD_TEST_MYSQL_ROOT") != "" {
		t.Skip("MySQL has no Galera")
	}
	pair := must.Get(dbserver.StartPair(t.Context(), dbserver.Options{}))(t)
	t.Cleanup(func() {
		for _, node := range pair {
			if err := node.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	targets := map[string]int{"a": 4}
	s := newSiteOn(t, pair[0], "", targets, polling)
	there := harness.Settings{"mysql_port": strconv.Itoa(pair[1].Port())}
	other := s.worker(t, "other").With(harness.Targets(targets), polling, there)
	s.start(t)
	other.StartWorker(t)
	s.insert(t, size(400, 5000), "a") // for both: the first would else have most of it before the second looks
	s.awaitDone(t)
	journals := []string{s.settings["journal_dir"], other["journal_dir"]}
	lost, shares := 0, [2]int{}
	for i, dir := range journals {
		lost += countKind(t, dir, journal.KindReleased)
		shares[i] = countKind(t, dir, journal.KindDone)
	}
	if lost == 0 || shares[0] == 0 || shares[1] == 0 {
		t.Errorf("the workers ran %d jobs, and were never in each other's way", shares)
	}
	suite.matrix.add(line{
		fault: "6 two workers on the nodes of a Galera pair", runs: 2, tally: s.known(t, journals...),
		note: fmt.Sprintf("%d and %d jobs, %d claims lost to the other", shares[0], shares[1], lost),
	})
}

// countKind counts a journal's events of one kind.
func countKind(t *testing.T, dir string, kind journal.Kind) (n int) {
	t.Helper()
	reader := must.Get(replay.Open(dir))(t)
	for _, err := range reader.Events(t.Context(), journal.Filter{Kinds: []journal.Kind{kind}}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

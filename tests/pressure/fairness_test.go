package pressure

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Three targets have thousands of rows. A job of a fourth, which has none, is started after a poke
// before many of the others are: it does not queue behind them.
func TestNewJobDoesNotWaitForTheBacklogOfOtherTargets(t *testing.T) {
	t.Parallel()
	const rows, mayPassBy = 9000, 100
	s := newSite(t)
	s.InsertMany(t, rows, "busy0", "waiting")
	s.Exec(t, "UPDATE jobs SET target = CONCAT('busy', id % 3)")
	log := filepath.Join(t.TempDir(), "started")
	launcher := harness.Script(t, "echo $1 >> "+log) + " {id}"
	w := s.start("fair", launcher, map[string]int{"busy0": 4, "busy1": 4, "busy2": 4, "idle": 4})
	s.awaitDone(100)
	for id := int64(rows + 1); id <= rows+5; id++ {
		s.Insert(t, id, "idle", "waiting")
		before := len(started(t, log))
		w.client.Ask(t, "poll", map[string]any{"targets": []string{"idle"}})
		s.AwaitDone(t, id)
		at := slices.Index(started(t, log), fmt.Sprint(id))
		atMost(t, "other jobs started between the poke and the start", at-before, mayPassBy)
	}
	if s.Count(t, "status = 'waiting'") == 0 {
		t.Error("the backlog was gone: nothing was tried")
	}
	s.ignoreRest()
}

// started lists the jobs in the order of their starts.
func started(t *testing.T, log string) []string {
	t.Helper()
	text := must.Get(os.ReadFile(log))(t)
	return strings.Fields(string(text))
}

// awaitDone waits until so many jobs are done.
func (s *site) awaitDone(n int) {
	s.t.Helper()
	harness.Until(s.t, func() string {
		if got := s.Count(s.t, "status = 'done'"); got < n {
			return fmt.Sprintf("%d jobs are done, not %d", got, n)
		}
		return ""
	})
}

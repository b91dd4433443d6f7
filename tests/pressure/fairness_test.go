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
	s.Exec(t, "UPDATE jobs SET status = 'ignored' WHERE status = 'waiting'") // nobody waits for the rest
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

// A worker that is full keeps its prefetched jobs and no more; all other rows are another's, who has free slots.
func TestFullWorkerLeavesTheRestToOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ prefetch, held string }{
		"one prefetched for each slot": {"", "4"},
		"none prefetched":              {"0", "2"},
		"few prefetched":               {"1", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const rows = 30
			s := newSite(t)
			s.InsertMany(t, rows, "a", "waiting")
			settings := harness.Settings{}
			if c.prefetch != "" {
				settings["prefetch"] = c.prefetch
			}
			full := s.start("full", s.gated(), map[string]int{"a": 2}, settings)
			s.AwaitCount(t, 2, "status = 'running'")
			free := s.start("free", "/bin/true {id}", map[string]int{"a": 2}, settings)
			s.AwaitCount(t, 0, "status = 'waiting'")
			full.poll(10)
			free.poll(10)
			harness.Until(t, func() string {
				if held := fmt.Sprint(s.held()); held != c.held {
					return fmt.Sprintf("%s rows are held, not %s", held, c.held)
				}
				return ""
			})
			if got := fmt.Sprint(full.status().length()); got != c.held {
				t.Errorf("the full worker holds %s jobs, not %s", got, c.held)
			}
			s.open()
			s.AwaitCount(t, rows, "result = 'ok'")
		})
	}
}

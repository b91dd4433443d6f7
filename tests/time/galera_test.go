package time

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Two workers at the two nodes of a Galera pair, of which neither knows the other's row locks: rows that
// come at one time, fail once and come again, and one that recurs. Each run is started once, and whoever
// ran the attempt before.
func TestDelayedRowsOfAGaleraPair(t *testing.T) {
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
	jobs := size[int64](120, 3000)
	s := newSiteOn(t, pair[0], fmt.Sprintf(`[ $1 != %d ] && [ $((JOBD_ATTEMPT * ($1 %% 3))) != 1 ]`, jobs+2))
	again := jobs + 3 // which goes well at once
	terms := harness.Terms("a", harness.Settings{"attempts": "2", "backoff": "1s"})
	polls := harness.Settings{"poll_interval": "1"}
	at := s.now() + 3
	for id := int64(1); id <= jobs; id++ {
		s.insert(timed{id: id, runAt: at})
	}
	s.insert(timed{id: again, runAt: at, schedule: "every 1s"}, timed{id: jobs + 2, runAt: at})
	first := s.worker("w1", map[string]int{"a": 4}, terms, polls)
	second := s.worker("w2", map[string]int{"a": 4}, terms, polls, harness.Settings{"mysql_port": strconv.Itoa(pair[1].Port())})
	first.StartWorker(t)
	second.StartWorker(t)
	for id := int64(1); id <= jobs; id++ {
		if row := s.awaitStatus(id, "done"); row.result != "ok" || len(s.oracle.starts(t, id)) != attemptsOf(id) {
			t.Errorf("%s was started %d times, want %d", row, len(s.oracle.starts(t, id)), attemptsOf(id))
		}
	}
	if row := s.awaitStatus(jobs+2, "done"); row.result != "fail" || row.attempts != 2 || len(s.oracle.starts(t, jobs+2)) != 2 {
		t.Errorf("%s fails always, and has two attempts", row)
	}
	s.oracle.await(t, again, 4)
	harness.Until(t, func() string { // the other node's worker may be faster; its last run is planned for a time of its own
		if _, err := s.Admin.ExecContext(t.Context(), "UPDATE jobs SET schedule = NULL, run_at = 1, planned_at = 1 WHERE id = ?", again); err != nil {
			return err.Error()
		}
		return ""
	})
	s.awaitStatus(again, "done")
	planned := map[int64]bool{}
	for _, begun := range s.oracle.starts(t, again) {
		if planned[begun.planned] {
			t.Errorf("the run that was planned for %d was started twice", begun.planned)
		}
		planned[begun.planned] = true
	}
	for _, settings := range []harness.Settings{first, second} {
		if claims := claimsOf(t, settings); len(claims) == 0 {
			t.Errorf("%s had no part in it", settings["name"])
		}
		verifyJournal(t, settings)
	}
}

// attemptsOf is how many starts a row takes: the first one of each third row fails.
func attemptsOf(id int64) int {
	if id%3 == 1 {
		return 2
	}
	return 1
}

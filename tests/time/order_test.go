package time

import (
	"slices"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// Rows with a higher priority come first, be they waiting or due; among equals those that came first.
func TestPriorities(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	at := s.now()
	s.insert(timed{id: 1, status: "waiting"}, timed{id: 2, status: "waiting", priority: 5}, timed{id: 3, status: "waiting", priority: -1},
		timed{id: 4, runAt: at - 50, priority: 5}, timed{id: 5, runAt: at - 60, priority: 127}, timed{id: 6, status: "waiting", priority: 5},
		timed{id: 7, runAt: at - 70, priority: -1}, timed{id: 8, runAt: at + 3600, priority: 127}, timed{id: 9, runAt: at - 80})
	s.worker("w1", map[string]int{"a": 1}, harness.Settings{"prefetch": "0"}).StartWorker(t)
	s.awaitAll(8)
	var order []int64
	for _, begun := range s.oracle.starts(t) {
		order = append(order, begun.id)
	}
	// Rows 4, 7 and 9 became due before the others were created.
	if want := []int64{5, 4, 2, 6, 9, 1, 7, 3}; !slices.Equal(order, want) {
		t.Errorf("started in the order %d, want %d", order, want)
	}
}

// An application that wants one row of a kind at a time inserts the next one as soon as the former has
// ended: the unique key is held while the row waits, runs or is delayed, and no longer.
func TestUniqueKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, `[ $1 != 2 ] || [ $JOBD_ATTEMPT = 2 ]`)
	worker := s.worker("w1", map[string]int{"a": 1}, harness.Terms("a", harness.Settings{"attempts": "2", "backoff": "1s"})).StartWorker(t)
	insert := func(id int64) error {
		_, err := s.Admin.ExecContext(t.Context(), "INSERT INTO jobs (id, target, time_created, status, run_at, unique_key) VALUES (?, 'a', UNIX_TIMESTAMP(), 'delayed', UNIX_TIMESTAMP(), 'nightly')", id)
		return err
	}
	jobs := int64(size(8, 100))
	for id := int64(1); id <= jobs; id++ {
		harness.Until(t, func() string {
			if err := insert(id); err != nil {
				return err.Error()
			}
			return ""
		})
		if insert(id+1000) == nil {
			if row := s.row(id); row.status != "done" {
				t.Fatalf("a second row was inserted beside %s", row)
			}
			s.Exec(t, "DELETE FROM jobs WHERE id = ?", id+1000)
		}
		poll(t, worker)
	}
	s.awaitAll(int(jobs))
	if n := len(s.oracle.starts(t, 2)); n != 2 {
		t.Errorf("job 2 was started %d times: it fails once", n)
	}
	if n := s.Count(t, "unique_key IS NOT NULL"); n > 0 {
		t.Errorf("%d rows keep their key", n)
	}
}

// Each target may have a launcher of its own, with its folder and its environment. What a job is told
// about its attempts stands in its environment.
func TestLaunchersOfTargets(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	dir := t.TempDir()
	launcher := harness.Script(t, `echo "$(pwd) $1 $2 ${COMMON:-none} ${OWN:-none} ${JOBD_ATTEMPT:-none} ${JOBD_MAX_ATTEMPTS:-none} ${JOBD_PLANNED:+planned} ${JOBD_DEADLINE:+deadline}"`)
	settings := s.worker("w1", map[string]int{"a": 1, "b": 1, "c": 1}, harness.Settings{"launcher.env.COMMON": "common"},
		harness.Settings{"launcher": launcher + " {id} plain"},
		harness.Terms("b", harness.Settings{"launcher": launcher + " {id} special", "launcher.cwd": dir, "launcher.env.OWN": "own", "attempts": "3", "timeout": "1m"}),
		harness.Terms("c", harness.Settings{"launcher.env.OWN": "third"}))
	settings.StartWorker(t)
	at := s.now()
	s.insert(timed{id: 1, target: "a", status: "waiting"}, timed{id: 2, target: "b", runAt: at}, timed{id: 3, target: "c", status: "waiting"})
	harness.Dial(t, settings.Addr()).Ask(t, "poll", nil)
	wants := map[int64]string{
		1: "1 plain common none 1 1  ", 2: dir + " 2 special common own 1 3 planned deadline", 3: "3 plain common third 1 1  ",
	}
	for id, want := range wants {
		s.awaitStatus(id, "done")
		row := s.Row(t, id)
		if got := strings.TrimRight(harness.Text(row.Stdout), "\n"); !strings.HasSuffix(got, strings.TrimRight(want, "")) {
			t.Errorf("job %d prints %q, want %q", id, got, want)
		}
	}
}

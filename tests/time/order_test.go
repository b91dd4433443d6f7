package time

import (
	"testing"

	"jobd/tests/harness"
)

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

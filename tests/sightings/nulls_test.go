package sightings

import (
	"fmt"
	"syscall"
	"testing"

	"jobd/journal"
)

// Rows are set back by hand while their jobs run, with NULL where there is else a number or a name. The
// mirror, which looks at them because they are its no more, reads them as they are; it brings
// everything else up to date, now and after a restart.
func TestNULLs(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			r, settings := store.make(t)
			l := newLauncher(t, 1, 2, 3)
			s := settings(l.command, map[string]int{"a": 4})
			worker := s.StartWorker(t)
			insert(t, r, "a", "waiting", 1, 2, 3)
			poll(t, worker)
			l.awaitStarts(t, 3)
			awaitCount(t, r, 3, "status = 'running'")
			for i, column := range []string{"time_started", "time_finished", "target"} {
				r.Exec(t, fmt.Sprintf("UPDATE jobs SET status = 'ignored', sig = NULL, %s = NULL WHERE id = %d", column, i+1))
			}
			l.letGo(t)
			insert(t, r, "a", "waiting", span(10, 29)...)
			poll(t, worker)
			awaitCount(t, r, 20, "id >= 10 AND status = 'done' AND result = 'ok'")
			await(t, func() string {
				if told := events(t, s, -1, journal.KindConflict); told < 3 {
					return fmt.Sprintf("%d conflicts are journalled", told)
				}
				return ""
			})
			worker.Signal(t, syscall.SIGTERM)
			worker.ExitCode(t)

			worker = s.StartWorker(t)
			insert(t, r, "a", "waiting", 30)
			poll(t, worker)
			awaitCount(t, r, 21, "id >= 10 AND status = 'done' AND result = 'ok'")
			if left := r.Count(t, "id < 10 AND status = 'ignored' AND result IS NULL"); left != 3 {
				t.Errorf("%d of the three rows are as they were left", left)
			}
			l.expectOnce(t, 24)
		})
	}
}

// Rows with NULLs are inserted so, and run; those without a target are nobody's, and hold up nothing.
func TestRowsInsertedWithNULLs(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			r, settings := store.make(t)
			l := newLauncher(t)
			worker := settings(l.command, map[string]int{"a": 2}).StartWorker(t)
			r.Exec(t, `INSERT INTO jobs (id, target, time_created, time_started, time_finished) VALUES
				(1, NULL, 1, 0, 0), (2, 'a', 1, NULL, 0), (3, 'a', 1, 0, NULL), (4, 'a', 1, NULL, NULL)`)
			insert(t, r, "a", "waiting", span(5, 14)...)
			poll(t, worker)
			awaitCount(t, r, 13, "status = 'done' AND result = 'ok' AND time_started > 0 AND time_finished > 0")
			l.expectOnce(t, 13)
		})
	}
}

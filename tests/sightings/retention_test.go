package sightings

import (
	"path/filepath"
	"testing"
	"time"

	"jobd/tests/harness"
)

// A job runs for longer than the journal is kept, and the worker is killed meanwhile. Its claim is in
// no segment any more; the row gets the job's end all the same, and the worker goes on.
func TestAJobThatIsOlderThanTheJournal(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t, 1)
	s := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2}),
		harness.Settings{"journal_segment_age": "1s", "journal_retention": "1s"})
	worker := s.StartWorker(t)
	insert(t, db, "a", "waiting", 1)
	poll(t, worker)
	l.awaitStarts(t, 1)
	next := int64(2)
	more := func() {
		insert(t, db, "a", "waiting", next)
		poll(t, worker)
		awaitCount(t, db, int(next)-1, "id > 1 AND status = 'done'")
		next++
	}
	more()
	last := time.Now()
	begins := filepath.Join(s["journal_dir"], "segment-00000001.*")
	await(t, func() string {
		if now := time.Now(); now.Sub(last) > 500*time.Millisecond {
			more() // an event, so that the journal begins a new segment
			last = now
		}
		if found, err := filepath.Glob(begins); err != nil || len(found) > 0 {
			return "the journal still has its beginning"
		}
		return ""
	})
	worker.Kill(t)
	worker = s.StartWorker(t)
	l.letGo(t)
	awaitCount(t, db, 1, "id = 1 AND status = 'done' AND result = 'ok'")
	more()
	if !worker.Running() {
		t.Error("the worker has ended")
	}
	l.expectOnce(t, int(next)-1)
}

package sightings

import (
	"os"
	"strings"
	"testing"

	"jobd/journal"
)

// remove takes the table's file away, with what SQLite keeps beside it.
func (f *file) remove(t *testing.T, to string) {
	t.Helper()
	f.db.Close()
	for _, end := range []string{"", "-wal", "-shm"} {
		err := error(nil)
		if to == "" {
			err = os.Remove(f.path + end)
		} else {
			err = os.Rename(f.path+end, to+end)
		}
		if err != nil && (end == "" || !os.IsNotExist(err)) {
			t.Fatal(err)
		}
	}
}

// The table's file is deleted under a worker that runs a job, and another is made in its place. The log
// tells; the journal keeps what became of the job; the new table is served.
func TestSQLiteFileDeleted(t *testing.T) {
	t.Parallel()
	f, l := newFile(t), newLauncher(t, 1)
	s := f.worker(t, l.command, map[string]int{"a": 2})
	worker := s.StartWorker(t)
	insert(t, f, "a", "waiting", 1, 2)
	poll(t, worker)
	l.awaitStarts(t, 2)
	awaitCount(t, f, 1, "id = 2 AND status = 'done'")
	told := len(worker.Output())
	f.remove(t, "")
	poll(t, worker)
	await(t, func() string {
		if log := worker.Output()[told:]; !strings.Contains(log, f.path) {
			return "the log does not name the file that is gone: " + log
		}
		return ""
	})
	l.letGo(t)
	await(t, func() string {
		if events(t, s, 1, journal.KindDone) == 0 {
			return "the end of the job is not journalled"
		}
		return ""
	})

	f = openFile(t, f.path)
	insert(t, f, "a", "waiting", span(10, 19)...)
	poll(t, worker)
	awaitCount(t, f, 10, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 12)
}

// The file is moved away and back while a job runs: nothing that happened meanwhile is lost.
func TestSQLiteFileMovedAwayAndBack(t *testing.T) {
	t.Parallel()
	f, l := newFile(t), newLauncher(t, 1)
	s := f.worker(t, l.command, map[string]int{"a": 2})
	worker := s.StartWorker(t)
	insert(t, f, "a", "waiting", 1)
	poll(t, worker)
	l.awaitStarts(t, 1)
	awaitCount(t, f, 1, "status = 'running'")
	other, told := t.TempDir()+"/away.db", len(worker.Output())
	f.remove(t, other)
	l.letGo(t)
	await(t, func() string {
		if events(t, s, 1, journal.KindDone) == 0 {
			return "the end of the job is not journalled"
		}
		return ""
	})
	await(t, func() string {
		if log := worker.Output()[told:]; !strings.Contains(log, f.path) {
			return "the log does not name the file that is gone: " + log
		}
		return ""
	})
	(&file{path: other, db: f.db}).remove(t, f.path)
	again := reopen(t, f.path)
	insert(t, again, "a", "waiting", 2)
	poll(t, worker)
	awaitCount(t, again, 2, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 2)
}

// Another file is put in the place of the table's: the log says so, and its rows are run.
func TestSQLiteFileReplaced(t *testing.T) {
	t.Parallel()
	f, other, l := newFile(t), newFile(t), newLauncher(t)
	worker := f.worker(t, l.command, map[string]int{"a": 2}).StartWorker(t)
	insert(t, f, "a", "waiting", 1)
	poll(t, worker)
	awaitCount(t, f, 1, "status = 'done'")
	insert(t, other, "a", "waiting", span(10, 19)...)
	told := len(worker.Output())
	f.remove(t, t.TempDir()+"/old.db")
	other.remove(t, f.path)
	again := reopen(t, f.path)
	poll(t, worker)
	awaitCount(t, again, 10, "status = 'done' AND result = 'ok'")
	if log := worker.Output()[told:]; !strings.Contains(log, f.path) {
		t.Errorf("the log does not say that the file is another one: %s", log)
	}
	l.expectOnce(t, 11)
}

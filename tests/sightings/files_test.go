package sightings

import (
	"os"
	"strings"
	"testing"
)

// remove takes the table's file away, with what SQLite keeps beside it.
func (f *file) remove(t *testing.T, to string) {
	t.Helper()
	f.db.Close()
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(f.path+end, to+end); err != nil && (end == "" || !os.IsNotExist(err)) {
			t.Fatal(err)
		}
	}
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

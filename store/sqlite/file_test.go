package sqlite_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/sqlite"
	"jobd/store/storetest/must"
)

const token = "@abcd01234"

// watched is a table whose file is moved and replaced.
type watched struct {
	*sqlite.Table
	dir, path string
	log       bytes.Buffer // written under the table's one connection only
	calls     atomic.Int64 // of OnServer
}

// watch makes a table with one running job in its file, and claims confirmed.
func watch(t *testing.T) *watched {
	t.Helper()
	w := &watched{dir: t.TempDir()}
	w.path = filepath.Join(w.dir, "jobs.db")
	w.Table = open(t, sqlite.Config{Path: w.path, Logger: slog.New(slog.NewTextHandler(&w.log, nil)), OnServer: func() { w.calls.Add(1) }})
	confirmed(t, w.Table)
	exec(t, application(t, w.path), "INSERT INTO jobs (target, time_created, status, sig) VALUES ('a', 1, 'running', ?)", token)
	return w
}

// move renames the file and those that belong to it.
func (w *watched) move(t *testing.T, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(filepath.Join(w.dir, from+suffix), filepath.Join(w.dir, to+suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// remove deletes the file and those that belong to it.
func (w *watched) remove(t *testing.T) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(w.path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// another makes a file of the name with a table that holds the running job.
func (w *watched) another(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join(w.dir, name)
	table := must.Get(sqlite.New(sqlite.Config{Path: path}))(t)
	must.Do(t, errors.Join(table.Check(t.Context()), table.Close()))
	db := application(t, path)
	exec(t, db, "INSERT INTO jobs (target, time_created, status, sig) VALUES ('a', 1, 'running', ?)", token)
	must.Do(t, db.Close())
}

func (w *watched) apply(t *testing.T) error {
	t.Helper()
	change := store.Change{Job: 1, Token: token, Status: journal.RowDone, Done: &journal.Done{Result: "ok"}}
	got, err := w.Apply(t.Context(), []store.Change{change})
	if err == nil && got[0] != (store.Outcome{}) {
		t.Errorf("Apply: %+v", got[0])
	}
	return err
}

// expectAway checks that an error says that the table is out of reach, and why.
func expectAway(t *testing.T, what string, err error, words string) {
	t.Helper()
	var unreachable *store.Unreachable
	if !errors.As(err, &unreachable) || !store.IsAway(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v; want it unreachable, as it %q", what, err, words)
	}
}

func expectStatus(t *testing.T, path, want string) {
	t.Helper()
	var status string
	if err := application(t, path).QueryRow("SELECT status FROM jobs WHERE id = 1").Scan(&status); err != nil || status != want {
		t.Errorf("the job in %s is %q, %v; want %q", filepath.Base(path), status, err, want)
	}
}

// Regression: the file was deleted while jobd ran: results vanished, polls were answered with ok.
// The table is away until the file is back; nobody makes an empty one.
func TestFileThatIsGoneIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := watch(t)
	before := must.Get(w.Server(t.Context()))(t)
	w.move(t, "jobs.db", "aside.db")
	for range 2 {
		expectAway(t, "Apply", w.apply(t), "is gone")
		expectAway(t, "Claim", w.Claim(t.Context(), map[string]int{"a": 1}, nil, nil), "is gone")
		expectAway(t, "Check", w.Check(t.Context()), "is gone")
		_, err := w.Hold(t.Context(), "name:w") // by which a worker notices that has nothing to claim
		expectAway(t, "Hold", err, "is gone")
		_, err = w.Look(t.Context(), []int64{1})
		expectAway(t, "Look", err, "is gone")
	}
	if _, err := os.Stat(w.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
	w.move(t, "aside.db", "jobs.db")
	if err := w.apply(t); err != nil {
		t.Fatalf("with the file back: %v", err)
	}
	expectStatus(t, w.path, "done")
	if after, err := w.Server(t.Context()); err != nil || after != before {
		t.Errorf("the file is %q, was %q: %v", after, before, err)
	}
}

// Regression: the file was replaced while jobd ran: results went where nobody looks, new rows were
// never seen. The new one is opened, and claims wait until it has been compared with the journal.
func TestFileThatIsReplacedIsOpenedAnew(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		replace func(t *testing.T, w *watched)
	}{
		{"renamed over", func(t *testing.T, w *watched) {
			w.another(t, "new.db")
			w.move(t, "jobs.db", "old.db")
			w.move(t, "new.db", "jobs.db")
		}},
		{"deleted, then made", func(t *testing.T, w *watched) {
			w.remove(t)
			w.another(t, "jobs.db")
		}},
		{"deleted, missed, then made", func(t *testing.T, w *watched) {
			w.remove(t)
			expectAway(t, "Apply", w.apply(t), "is gone")
			w.another(t, "jobs.db")
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := watch(t)
			before := must.Get(w.Server(t.Context()))(t)
			calls := w.calls.Load()
			c.replace(t, w)
			expectAway(t, "the first Apply", w.apply(t), "replaced")
			after, err := w.Server(t.Context())
			if err != nil || after == before || w.calls.Load() == calls {
				t.Errorf("the file is %q, was %q; OnServer was called %d times: %v", after, before, w.calls.Load()-calls, err)
			}
			var another *store.AnotherServer
			if err := w.Claim(t.Context(), map[string]int{"a": 1}, nil, nil); !errors.As(err, &another) {
				t.Errorf("a claim in a file that was not confirmed: %v", err)
			}
			if err := w.apply(t); err != nil {
				t.Fatalf("Apply in the new file: %v", err)
			}
			expectStatus(t, w.path, "done")
			w.Confirm(after)
			if err := w.Claim(t.Context(), map[string]int{"a": 1}, nil, nil); err != nil {
				t.Errorf("a claim in the confirmed file: %v", err)
			}
			if n := strings.Count(w.log.String(), "level=WARN"); n != 1 {
				t.Errorf("%d warnings, want one:\n%s", n, w.log.String())
			}
		})
	}
}

// A file that is replaced by an empty one does not get a table: only a new Table makes one.
func TestEmptyFileInPlaceOfTheTable(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.remove(t)
	must.Do(t, os.WriteFile(w.path, nil, 0o600))
	expectAway(t, "Apply", w.apply(t), "replaced")
	var unusable *store.Unusable
	if err := w.apply(t); !errors.As(err, &unusable) || !strings.Contains(err.Error(), "no such table") {
		t.Errorf("Apply: %v; want the table to be unusable", err)
	}
}

// The file is replaced while a transaction is open in it: what was committed there does not count.
func TestFileThatIsReplacedUnderATransaction(t *testing.T) {
	t.Parallel()
	w := watch(t)
	exec(t, application(t, w.path), "INSERT INTO jobs (target, time_created) VALUES ('a', 1)")
	err := w.Claim(t.Context(), map[string]int{"a": 1}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		w.another(t, "new.db")
		w.move(t, "jobs.db", "old.db")
		w.move(t, "new.db", "jobs.db")
		return []journal.Event{{Job: rows[0].Job, Payload: journal.Accepted{Target: "a", Token: token}}}, nil
	})
	expectAway(t, "the claim", err, "replaced")
	expectAway(t, "the first Apply", w.apply(t), "replaced")
	must.Do(t, w.apply(t))
	expectStatus(t, w.path, "done")
	expectStatus(t, filepath.Join(w.dir, "old.db"), "running")
}

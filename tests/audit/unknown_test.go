package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/tests/harness"
)

// lostHistory is a worker that has lost the journal of its first six jobs, and has run three since; then the table was restored
// from a backup that is older than all of them. The worker is paused.
type lostHistory struct {
	db     *harness.Database
	master *harness.Daemon
	addr   string           // the worker's
	lost   string           // the folder of its former journal
	want   map[int64]string // the table before it was restored
	since  time.Time        // when its present journal had begun
}

func newLostHistory(t *testing.T) lostHistory {
	t.Helper()
	l := lostHistory{db: harness.NewDatabase(t), master: harness.StartMaster(t)}
	former, settings := start(t, l.db, "node-1", "mail", 1, 6)
	former.Signal(t, syscall.SIGTERM)
	former.ExitCode(t)
	l.lost = filepath.Join(t.TempDir(), "lost")
	if err := os.Rename(settings["journal_dir"], l.lost); err != nil {
		t.Fatal(err)
	}
	l.db.Exec(t, "UPDATE jobs SET time_created = time_created - 100")
	worker := settings.With(harness.MasterOf(l.master)).StartWorker(t)
	l.addr = worker.Addr
	harness.AwaitWorkers(t, l.master, "", 1)
	client := harness.Dial(t, worker.Addr)
	l.since = time.Now()
	for id := int64(7); id <= 9; id++ {
		l.db.Insert(t, id, "mail", "waiting")
	}
	client.Ask(t, "poll", nil)
	l.db.AwaitCount(t, 9, "status = 'done'")
	client.Ask(t, "pause", nil)
	l.want = content(t, l.db)
	l.db.Exec(t, blank+"true")
	return l
}

func (l lostHistory) waiting(t *testing.T, when string, want int) {
	t.Helper()
	if n := l.db.Count(t, "status = 'waiting'"); n != want {
		t.Fatalf("%s %d rows wait, want %d", when, n, want)
	}
}

// Rows that ran before the history begins wait again, and would be run again: reapply says so, and does nothing.
func TestReapplySaysWhatItCannotKnow(t *testing.T) {
	t.Parallel()
	l := newLostHistory(t)
	unknown := []string{
		"6 rows wait that may have run, and that no journal knows: 1,2,3,4,5,6",
		"6 rows that wait were created before the history of node-1 begins, ", "it holds nothing from before",
	}
	expect(t, 1, append(unknown, "nothing was changed", "--accept-unknown"), l.addr, "journal", "reapply")
	l.waiting(t, "after a refused reapply", 9)
	expect(t, 0, append(unknown, "would apply"), l.addr, "journal", "reapply", "--dry-run")
	l.waiting(t, "after a dry run", 9)

	// A client that does not ask first is refused by the worker itself.
	client := harness.Dial(t, l.addr)
	var opened struct{ Cursor string }
	client.Ask(t, "journal-reapply", nil).Decode(t, &opened)
	var page struct{ Error string }
	client.Ask(t, "journal-next", map[string]string{"cursor": opened.Cursor}).Decode(t, &page)
	if !strings.HasPrefix(page.Error, "6 rows wait that were created before the history of node-1 begins (") {
		t.Errorf("a bare reapply was answered with %q", page.Error)
	}
	l.waiting(t, "after a bare reapply", 9)
	expect(t, 0, []string{"request=journal-reapply", "6 rows wait"}, l.addr, "journal", "log", "--kind", "refused")

	expect(t, 0, append(unknown, "applied"), l.addr, "journal", "reapply", "--accept-unknown")
	l.waiting(t, "what nobody knows is left as it is:", 6)
	expect(t, 0, []string{"from=1 to=", "by=127.0.0.1:", "rows=3 "}, l.addr, "journal", "log", "--kind", "reapplied")
}

// Where the backup is younger than the history, all is known.
func TestReapplySinceTheHistoryBegan(t *testing.T) {
	t.Parallel()
	l := newLostHistory(t)
	expect(t, 1, []string{"nothing was changed"}, l.addr, "journal", "reapply", "--since", "1h")
	out := expect(t, 0, []string{"applied"}, l.addr, "journal", "reapply", "--since", l.since.UTC().Format(time.RFC3339Nano))
	if n := strings.Count(out, " applied "); n != 3 {
		t.Errorf("%d rows were applied, want 3:\n%s", n, out)
	}
}

// With the lost journal all is known, and all of it comes back.
func TestReapplyOfALostJournal(t *testing.T) {
	t.Parallel()
	l := newLostHistory(t)
	nowhere := filepath.Join(t.TempDir(), "nothing")
	expect(t, 1, []string{"a worker must be able to read it", "there is no journal in folder " + nowhere}, l.master.Addr, "--master", "journal", "reapply", "--journal", nowhere)
	l.waiting(t, "after a folder without a journal", 9)
	out := expect(t, 0, []string{"applied"}, l.master.Addr, "--master", "journal", "reapply", "--journal", l.lost)
	if n := strings.Count(out, " applied "); n != 9 {
		t.Errorf("%d rows were applied, want 9:\n%s", n, out)
	}
	expectContent(t, "after reapply", content(t, l.db), l.want)
	expect(t, 0, []string{"journal=node-1", "rows=6 ", "rows=3 "}, l.addr, "journal", "log", "--kind", "reapplied")
	expect(t, 0, []string{"verified: "}, l.addr, "journal", "verify")
	if again := expect(t, 0, nil, l.master.Addr, "--master", "journal", "reapply", "--journal", l.lost); strings.Contains(again, "applied") {
		t.Errorf("a second reapply found something to do:\n%s", again)
	}
}

// A worker was killed between an ignored event and its COMMIT: the row reads manual, and by the next start the journal knows.
func TestAnIgnoringThatWasNotCommitted(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "node-1", "/bin/echo {id}", map[string]int{"mail": 1})
	worker := settings.StartWorker(t)
	for id := int64(1); id <= 2; id++ {
		db.Insert(t, id, "nobody's", "manual")
		harness.Dial(t, worker.Addr).Ask(t, "cancel", map[string]any{"ids": []int64{id}, "rows": true})
		db.AwaitStatus(t, id, "ignored")
	}
	worker.Kill(t)
	db.Exec(t, "UPDATE jobs SET status = 'manual' WHERE id = 1") // as if it had not been committed
	worker = settings.StartWorker(t)
	harness.Until(t, func() string {
		stdout, _, code := ctl(t, worker.Addr, "journal", "conflicts")
		if code != 0 || !strings.Contains(stdout, "when the worker was started again the row was manual") {
			return fmt.Sprint("no conflict: ", stdout)
		}
		return ""
	})
	if out := expect(t, 0, nil, worker.Addr, "journal", "diff"); strings.Contains(out, "nobody's") {
		t.Errorf("diff disagrees:\n%s", out)
	}
	if out := expect(t, 0, nil, worker.Addr, "journal", "conflicts"); strings.Count(out, "started again") != 1 {
		t.Errorf("the row that is ignored is in conflict:\n%s", out)
	}
}

package audit

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// blank makes a row what it was before anything happened to it.
const blank = "UPDATE jobs SET status = 'waiting', sig = NULL, result = NULL, return_code = NULL, time_started = 0, time_finished = 0, stdout = NULL, stderr = NULL WHERE "

// Rows that a backup has with a claim which its worker gave up later: the worker claimed the row again, or nobody did, or
// another worker did, which alone can tell how it ended; and a row that was ignored.
func TestReapplyToClaimsThatWereGivenUp(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t)
	gate := filepath.Join(t.TempDir(), "gate")
	settings := func(name string) harness.Settings {
		return db.Worker(t, name, `/bin/sh -c 'until test -e `+gate+`; do sleep 0.2; done; echo job $0' {id}`, map[string]int{"mail": 1}).
			With(harness.MasterOf(master), harness.Settings{"launcher_split": "shell", "prefetch": "3"})
	}
	first := settings("node-1")
	worker := first.StartWorker(t)
	db.InsertMany(t, 4, "mail", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	db.AwaitStatus(t, 1, "running")
	db.AwaitCount(t, 3, "status = 'accepted'")
	token := harness.Text(db.Row(t, 4).Sig)
	db.Insert(t, 5, "nobody's", "manual")
	harness.Dial(t, worker.Addr).Ask(t, "cancel", map[string]any{"ids": []int{5}, "rows": true})
	db.AwaitStatus(t, 5, "ignored")
	worker.Signal(t, syscall.SIGTERM)
	db.AwaitCount(t, 3, "status = 'waiting'") // 2, 3 and 4 were given back
	harness.Touch(t, gate)
	worker.ExitCode(t)

	pauseAfter := func(worker *harness.Daemon, id int64) {
		t.Helper()
		db.AwaitDone(t, id)
		harness.Dial(t, worker.Addr).Ask(t, "pause", nil)
	}
	db.Exec(t, "UPDATE jobs SET status = 'manual' WHERE id IN (2, 3)") // so that nobody takes them
	pauseAfter(settings("node-0").StartWorker(t), 4)
	db.Exec(t, "UPDATE jobs SET status = 'waiting' WHERE id = 2")
	pauseAfter(first.StartWorker(t), 2)
	db.Exec(t, "UPDATE jobs SET status = 'waiting' WHERE id = 3")
	harness.AwaitWorkers(t, master, "", 2)

	want := content(t, db)
	db.Exec(t, blank+"id IN (2, 3, 4)")
	db.Exec(t, "UPDATE jobs SET status = 'accepted', sig = ? WHERE id IN (2, 3, 4)", token)
	db.Exec(t, "UPDATE jobs SET status = 'manual' WHERE id = 5")
	restored := content(t, db)
	// Whether node-0 could end job 4 is not known before node-1 has given it back.
	expect(t, 1, []string{"would apply", "'" + token + "', which is no claim of this journal"}, master.Addr, "--master", "journal", "reapply", "--dry-run")
	expectContent(t, "after a dry run", content(t, db), restored)
	expect(t, 0, []string{"applied"}, master.Addr, "--master", "journal", "reapply")
	expectContent(t, "after reapply", content(t, db), want)
	expect(t, 0, nil, master.Addr, "--master", "journal", "diff")
}

// The worker is killed while it reapplies, again and again; the next reapply goes on from whatever step it got to.
func TestReapplyKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	const n = 1000
	worker, settings := start(t, db, "node-1", "mail", 1, n)
	log, _, _ := ctl(t, worker.Addr, "journal", "log", "--kind", "accepted")
	want := content(t, db)
	worker.Signal(t, syscall.SIGTERM)
	worker.ExitCode(t)
	db.Exec(t, blank+"true")
	for line := range strings.Lines(log) { // the states in which a kill may leave a row
		id := strings.Fields(strings.SplitAfter(line, " job ")[1])[0]
		_, token, _ := strings.Cut(strings.TrimSpace(line), "token=")
		switch id {
		case "999":
			db.Exec(t, "UPDATE jobs SET status = 'accepted', sig = ? WHERE id = 999", token)
		case "1000":
			db.Exec(t, "UPDATE jobs SET status = 'running', sig = ?, time_started = 5 WHERE id = 1000", token)
		}
	}
	idle := settings.Without("[targets] mail").With(harness.Targets(map[string]int{"other": 1})) // it claims nothing of this
	for round := 1; round <= 4; round++ {
		worker := idle.StartWorker(t)
		stop := make(chan int, 1)
		go func() {
			_, _, code := ctl(t, worker.Addr, "journal", "reapply")
			stop <- code
		}()
		harness.Until(t, func() string {
			if db.Count(t, "status = 'done'") < 150*round {
				return "nothing is reapplied"
			}
			return ""
		})
		worker.Kill(t)
		if code := <-stop; code == 0 {
			t.Errorf("round %d: the worker was killed, and the exit code is 0", round)
		}
	}
	if left := db.Count(t, "status <> 'done'"); left == 0 {
		t.Error("all was done before the last kill")
	}
	worker = idle.StartWorker(t)
	expect(t, 0, nil, worker.Addr, "journal", "reapply")
	expectContent(t, "after reapply", content(t, db), want)
	expect(t, 0, []string{"verified: "}, worker.Addr, "journal", "verify")
}

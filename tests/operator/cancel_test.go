package operator

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// stubborn is a job that takes no notice of SIGTERM, and says in a file that it runs.
func stubborn(t *testing.T) (launcher, marks string) {
	t.Helper()
	marks = t.TempDir()
	return harness.Script(t, fmt.Sprintf(`trap '' TERM; touch %s/$1; while :; do sleep 0.2; done`, marks)) + " {id}", marks
}

// never checks that a job was not started.
func never(t *testing.T, marks, id string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(marks, id)); !os.IsNotExist(err) {
		t.Errorf("job %s was started", id)
	}
}

// A person cancels jobs of one worker: one that runs, one that waits for its slot, one that nobody
// serves, and some that can't be cancelled.
func TestCancel(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher, marks := stubborn(t)
	worker := db.Worker(t, "node-1", launcher, map[string]int{"a": 1}).With(harness.Settings{"prefetch": "1"}).StartWorker(t)
	for id, target := range []string{1: "a", 2: "a", 3: "nobody's"} {
		if id > 0 {
			db.Insert(t, int64(id), target, "waiting")
		}
	}
	db.Insert(t, 4, "a", "done")
	db.Exec(t, "INSERT INTO jobs (id, target, time_created, status, sig) VALUES (5, 'a', 1, 'running', '@elsewhere')")
	jobctl(t, worker, "poll", "a")
	harness.AwaitFile(t, filepath.Join(marks, "1"))
	db.AwaitStatus(t, 2, "accepted")

	got := jobctl(t, worker, "cancel", "--grace", "200ms", "1", "a:2", "3", "4", "5", "6", "b:7")
	want := regexp.MustCompile(`^JOB +TARGET +BECAME *\n` +
		`1 +a +cancelling: SIGTERM sent, SIGKILL in 200ms *\n2 +a +ignored: it will not run *\n3 +nobody's +ignored: it will not run *\n$`)
	if !want.MatchString(got.stdout) || got.code != 1 {
		t.Errorf("code %d, stdout:\n%s", got.code, got.stdout)
	}
	for _, line := range []string{
		"job 4 is done already", "job 5: its row is running, with the token @elsewhere, of a worker that was not asked",
		"job 6: the table has no such row", "job 7: the table has no such row",
	} {
		check.Contains(t, got.stderr, line+"\n", "stderr has no %q", line)
	}
	const note = "[jobd: cancelled by 127.0.0.1]\n"
	if row := db.AwaitDone(t, 1); harness.Text(row.Result) != "fail" || harness.Text(row.Sig) != "SIGKILL" || harness.Text(row.Stderr) != note {
		t.Errorf("job 1: %s, stderr %q", row, harness.Text(row.Stderr))
	}
	for _, id := range []int64{2, 3} {
		if row := db.AwaitStatus(t, id, "ignored"); harness.Text(row.Stderr) != note || row.Sig != nil {
			t.Errorf("job %d: %s, stderr %q", id, row, harness.Text(row.Stderr))
		}
	}
	never(t, marks, "2")
	if row := db.Row(t, 5); row.Status != "running" || harness.Text(row.Sig) != "@elsewhere" {
		t.Errorf("job 5: %s", row)
	}
	if shown := jobctl(t, worker, "journal", "show", "1"); !strings.Contains(shown.stdout, "cancelled by 127.0.0.1:") || !strings.Contains(shown.stdout, "it has 200ms to end") {
		t.Errorf("journal show:\n%s", shown.stdout)
	}
	diff := jobctl(t, worker, "journal", "diff")
	check.Equal(t, diff.code, 0, "journal diff: %+v", diff)
	verdict := jobctl(t, worker, "journal", "verify")
	check.Equal(t, verdict.code, 0, "journal verify: %+v", verdict)
}

// Through the master no target is needed: whoever has the job cancels it, and rows that nobody has
// are cancelled by any of them.
func TestCancelThroughTheMaster(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher, marks := stubborn(t)
	master := harness.StartMaster(t)
	start := func(name, target string) *harness.Daemon {
		return db.Worker(t, name, launcher, map[string]int{target: 1}).With(harness.MasterOf(master), harness.Settings{"prefetch": "1"}).StartWorker(t)
	}
	start("node-1", "a")
	start("node-2", "b")
	third := start("node-3", "c")
	harness.AwaitWorkers(t, master, "", 3)
	for at, target := range []string{"a", "b", "b", "nobody's", "c", "c"} { // in this order: who looks meanwhile takes the first
		db.Insert(t, int64(at+1), target, "waiting")
	}
	jobctl(t, master, "--master", "poke", "a", "b", "c")
	for _, id := range []string{"1", "5"} {
		harness.AwaitFile(t, filepath.Join(marks, id))
	}
	db.AwaitCount(t, 2, "target = 'b' AND status IN ('accepted', 'running')")
	waits := "3"
	if db.Row(t, 2).Status == "accepted" {
		waits = "2"
	}
	harness.AwaitFile(t, filepath.Join(marks, map[string]string{"2": "3", "3": "2"}[waits]))
	got := jobctl(t, master, "--master", "cancel", "--grace", "0s", "1", "b:"+waits, "4")
	want := regexp.MustCompile(`(?s)^JOB +TARGET +WORKER +BECAME *\n1 +a +node-1 +cancelling: SIGTERM sent, and SIGKILL *\n` +
		waits + ` +b +node-2 +ignored: it will not run *\n4 +nobody's +node-[123] +ignored: it will not run *\n$`)
	if !want.MatchString(got.stdout) || got.code != 0 || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	never(t, marks, waits)
	db.AwaitStatus(t, 1, "done")

	third.Signal(t, syscall.SIGSTOP)
	t.Cleanup(func() { third.Signal(t, syscall.SIGCONT) })
	got = jobctl(t, master, "--master", "cancel", "5", "7")
	for _, line := range []string{"worker 'node-3'", "job 5: its row is running, with the token @", "of a worker that was not asked, or does not answer, and may still cancel it", "job 7: the table has no such row"} {
		if !strings.Contains(got.stderr, line) || got.code != 1 {
			t.Errorf("code %d, stderr has no %q:\n%s", got.code, line, got.stderr)
		}
	}
}

// A worker that is killed within the grace, with its runner or without, kills the job when it is
// there again.
func TestACancelOutlivesTheWorker(t *testing.T) {
	t.Parallel()
	for name, both := range map[string]bool{"worker": false, "worker and runner": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := harness.NewDatabase(t)
			launcher, marks := stubborn(t)
			settings := db.Worker(t, "node-1", launcher, map[string]int{"a": 1}).With(harness.Settings{"on_crash": "requeue"})
			worker := settings.StartWorker(t)
			db.Insert(t, 1, "a", "waiting")
			jobctl(t, worker, "poll", "a")
			harness.AwaitFile(t, filepath.Join(marks, "1"))
			got := jobctl(t, worker, "cancel", "--grace", "1s", "1")
			must.Equal(t, got.code, 0, "%+v", got)
			if both {
				_ = syscall.Kill(worker.Runner(t), syscall.SIGKILL)
			}
			worker.Kill(t)
			must.Do(t, os.Remove(filepath.Join(marks, "1")))
			worker = settings.StartWorker(t)
			row := db.AwaitDone(t, 1)
			if harness.Text(row.Result) != "fail" || !strings.Contains(harness.Text(row.Stderr), "[jobd: cancelled by 127.0.0.1") || !both && harness.Text(row.Sig) != "SIGKILL" {
				t.Errorf("%s, stderr %q", row, harness.Text(row.Stderr))
			}
			never(t, marks, "1") // once more
			shown := jobctl(t, worker, "journal", "show", "1")
			check.Contains(t, shown.stdout, "SIGKILL sent by 127.0.0.1:", "journal show")
		})
	}
}

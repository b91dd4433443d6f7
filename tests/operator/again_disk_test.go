package operator

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// smallDisk is a folder on a disk of its own, for a journal.
func smallDisk(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "journal")
	must.Do(t, os.Mkdir(dir, 0o700))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m,mode=0700"); err != nil {
		t.Skipf("only root can mount a small disk (%v); the journal's own tests of a full disk stand in", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// fill leaves so little room on a small disk that the worker takes it for full.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	ballast := filepath.Join(dir, "ballast")
	must.Do(t, os.WriteFile(ballast, make([]byte, 60<<20), 0o600))
	return func() {
		must.Do(t, os.Remove(ballast))
	}
}

// While the journal's disk is full no row is set back: whoever wants it is told why, and asks again
// when there is room.
func TestARetryWhileTheDiskIsFull(t *testing.T) {
	t.Parallel()
	db, dir := harness.NewDatabase(t), smallDisk(t)
	mended := filepath.Join(t.TempDir(), "mended")
	launcher := harness.Script(t, "[ -e "+mended+" ]")
	worker := db.Worker(t, "node-1", launcher+" {id}", map[string]int{"a": 2}).With(harness.Settings{"journal_dir": dir}).StartWorker(t)
	db.InsertMany(t, 3, "a", "waiting")
	poll(t, worker)
	db.AwaitCount(t, 3, "status = 'done' AND result = 'fail'")
	harness.Touch(t, mended)

	free := fill(t, dir)
	for _, args := range []string{"retry 1 2 3", "retry --failed --yes"} {
		got := jobctl(t, worker, strings.Fields(args)...)
		for _, job := range []string{"1", "2", "3"} {
			if !strings.Contains(got.stderr, "job "+job+" was not set back: ") {
				t.Errorf("%s does not tell of job %s: %+v", args, job, got)
			}
		}
		if n := strings.Count(got.stderr, "are free"); n != 3 || strings.Contains(got.stdout, "waiting") || got.code != 1 {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if n := db.Count(t, "status = 'done' AND result = 'fail' AND time_finished > 0 AND stderr IS NOT NULL"); n != 3 {
		t.Errorf("%d of 3 rows are as they were", n)
	}
	if got := jobctl(t, worker, "journal", "log", "--kind", "retried,conflict"); got.code != 0 || strings.Contains(got.stdout, "retried") || strings.Contains(got.stdout, "conflict") {
		t.Errorf("the journal: %+v", got)
	}

	free()
	if got := jobctl(t, worker, "retry", "1", "2", "3"); got.code != 0 || strings.Count(got.stdout, "waiting") != 3 {
		t.Errorf("with room again: %+v", got)
	}
	db.AwaitCount(t, 3, "status = 'done' AND result = 'ok'")
	for _, check := range []string{"journal diff", "journal verify"} {
		if got := jobctl(t, worker, strings.Fields(check)...); got.code != 0 {
			t.Errorf("%s: %+v", check, got)
		}
	}
}

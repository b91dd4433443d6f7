package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// writing starts a worker with a job that has written to both streams, and waits until the runner
// has that on disk. dir has what the job waits for.
func writing(t *testing.T, others ...harness.Settings) (db *harness.Database, settings harness.Settings, worker *harness.Daemon, dir string) {
	t.Helper()
	db, dir = harness.NewDatabase(t), t.TempDir()
	launcher := harness.Script(t, fmt.Sprintf(`trap '' PIPE; n=${JOBD_ATTEMPT:-1}
echo said $n; echo trouble $n >&2
while [ -d %[1]s ] && [ ! -e %[1]s/gate$n ]; do sleep 0.2; done; echo more`, dir))
	settings = db.Worker(t, "worker", launcher+" {id}", map[string]int{"a": 1}).With(others...)
	worker = settings.StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	awaitOnDisk(t, settings, "said 1\n", "trouble 1\n")
	return db, settings, worker, dir
}

// onDisk is what a worker's runners have on disk, by the ends of the files' names.
func onDisk(t *testing.T, settings harness.Settings) map[string]string {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(settings["journal_dir"], "runner.output", "*")))(t)
	found := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it is removed just now
		}
		name := filepath.Base(file)
		found[strings.Join(strings.Split(name, ".")[:2], ".")+filepath.Ext(name)] = string(text)
	}
	return found
}

func awaitOnDisk(t *testing.T, settings harness.Settings, stdout, stderr string) {
	t.Helper()
	harness.Until(t, func() string {
		found, missing := onDisk(t, settings), ""
		for _, want := range []string{stdout, stderr} {
			there := want == ""
			for _, text := range found {
				there = there || text == want
			}
			if !there {
				missing += fmt.Sprintf("%q is not on disk: %q", want, found)
			}
		}
		return missing
	})
}

func awaitNothingOnDisk(t *testing.T, settings harness.Settings) {
	t.Helper()
	harness.Until(t, func() string {
		if found := onDisk(t, settings); len(found) > 0 {
			return fmt.Sprintf("there are still %q", found)
		}
		return ""
	})
}

// Everything is killed: the outcome is unknown, and the row has what the job had written by then.
func TestCrashKeepsTheOutput(t *testing.T) {
	t.Parallel()
	db, settings, worker, _ := writing(t)
	worker.Crash(t)
	settings.StartWorker(t)
	row := db.AwaitDone(t, 1)
	reason, rest, _ := strings.Cut(harness.Text(row.Stderr), "\n")
	if harness.Text(row.Stdout) != "said 1\n" || rest != "trouble 1\n" || !strings.HasPrefix(reason, "jobd: outcome unknown: ") || !isReported(row) {
		t.Errorf("%s: want what the job had written, behind the reason", row)
	}
	awaitNothingOnDisk(t, settings)
	verifyJournal(t, settings)
}

// What an ended job had on disk is removed, also where its runner was killed meanwhile; a start
// removes what nobody needs, and leaves alone what is not jobd's.
func TestOutputThatNobodyNeedsIsRemoved(t *testing.T) {
	t.Parallel()
	db, settings, worker, dir := writing(t)
	harness.Touch(t, filepath.Join(dir, "gate1"))
	db.AwaitDone(t, 1)
	awaitNothingOnDisk(t, settings)
	folder := filepath.Join(settings["journal_dir"], "runner.output")
	worker.Crash(t)
	for _, name := range []string{"5.1.77.88.out", "-5.1.77.88.err", "notes"} {
		harness.Touch(t, filepath.Join(folder, name))
	}
	settings.StartWorker(t)
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 || left[0].Name() != "notes" {
		t.Errorf("left are %v, %v", left, err)
	}
}

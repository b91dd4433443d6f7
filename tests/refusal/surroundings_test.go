package refusal

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/tests/harness"
)

func TestPortInUse(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	code, output := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).
		With(harness.Settings{"port": port}).Refused(t)
	expect(t, code, 1, output, listener.Addr().String(), "address already in use")

	s := harness.Settings{"host": "127.0.0.1", "port": port}
	master := harness.Launch(t, "jobd-master", s.Write(t), "")
	expect(t, master.ExitCode(t), 1, master.Output(), listener.Addr().String(), "address already in use")
}

func TestLauncherThatDoesNotExist(t *testing.T) {
	t.Parallel()
	notExecutable := filepath.Join(t.TempDir(), "launch.sh")
	harness.Touch(t, notExecutable)
	cases := []struct{ name, launcher, reason string }{
		{"missing", "/nowhere/launcher {id}", "no such file"},
		{"not in PATH", "no-such-program {id}", "not found"},
		{"not executable", notExecutable + " {id}", "permission denied"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := harness.NewDatabase(t)
			worker := db.Worker(t, "worker", c.launcher, map[string]int{"a": 1}).StartWorker(t)
			db.Insert(t, 1, "a", "manual")
			var answer harness.Jobs
			harness.Dial(t, worker.Addr).Ask(t, "run-manual", map[string]any{"ids": []int{1}}).Decode(t, &answer)
			program, _, _ := strings.Cut(c.launcher, " ")
			if job := answer.Jobs["1"]; job.Result != "fail" || !strings.Contains(job.Stderr, program) || !strings.Contains(job.Stderr, c.reason) {
				t.Errorf("answer: %s; want fail, and a stderr that names %s and says %q", job, program, c.reason)
			}
			row := db.AwaitDone(t, 1)
			if stderr := harness.Text(row.Stderr); harness.Text(row.Result) != "fail" || row.Code != nil || !strings.Contains(stderr, c.reason) {
				t.Errorf("row: %s; want fail, and a stderr that says %q", row, c.reason)
			}
		})
	}
}

func TestWorkingFolderThatVanished(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	cwd := filepath.Join(t.TempDir(), "cwd")
	if err := os.Mkdir(cwd, 0o755); err != nil {
		t.Fatal(err)
	}
	db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).
		With(harness.Settings{"launcher.cwd": cwd, "poll_interval": "50ms"}).StartWorker(t)
	if err := os.Remove(cwd); err != nil {
		t.Fatal(err)
	}
	db.Insert(t, 1, "a", "waiting")
	row := db.AwaitDone(t, 1)
	if harness.Text(row.Result) != "fail" || !strings.Contains(harness.Text(row.Stderr), cwd) {
		t.Errorf("%s: want fail, and a stderr that names %s", row, cwd)
	}
}

// A folder below a regular file can be made by nobody, not even by root.
func TestJournalFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	file := filepath.Join(t.TempDir(), "file")
	harness.Touch(t, file)
	code, output := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).
		With(harness.Settings{"journal_dir": filepath.Join(file, "journal")}).Refused(t)
	expect(t, code, 1, output, "journal_dir", file)
}

func TestSecondWorkerOnTheSameJournal(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "first", "/bin/true {id}", map[string]int{"a": 1})
	first := settings.StartWorker(t)
	begun := time.Now()
	code, output := settings.With(harness.Settings{"name": "second", "port": harness.FreePort(t)}).Refused(t)
	t.Logf("refused after %s", time.Since(begun))
	expect(t, code, 1, output, settings["journal_dir"], fmt.Sprint(first.Pid))
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, first.Addr).Ask(t, "poll", nil)
	db.AwaitDone(t, 1)
}

package refusal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// program writes a launcher and gives its path.
func program(t *testing.T, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "launch.sh")
	put(t, path, content, mode)
	return path
}

// put puts a file in the place of another one, in one go.
func put(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path+".new", []byte(content), mode)
	syscall.ForkLock.RUnlock()
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

const (
	sound  = "#!/bin/sh\nexit 0\n"
	orphan = "#!/no/such/interpreter\n"
)

func TestLauncherThatCannotBeExecutedAtTheStart(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	for name, c := range map[string]struct{ launcher, reason string }{
		"not in PATH":    {"no-such-program {id}", "no-such-program: not found in PATH"},
		"no interpreter": {program(t, orphan, 0o755) + " {id}", `"/no/such/interpreter": no such file`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, output := db.Worker(t, "worker-"+strings.ReplaceAll(name, " ", "-"), c.launcher, map[string]int{"a": 1}).Refused(t)
			expect(t, code, 1, output, "launcher: it can't be executed", c.reason)
		})
	}
}

// troubled is what status tells of the launcher.
type troubled struct {
	Launcher *struct{ Broken string }
	Targets  map[string]struct{ Why string }
	Journal  struct{ Events int }
}

func statusOf(t *testing.T, worker *harness.Daemon) (s troubled) {
	t.Helper()
	harness.Dial(t, worker.Addr).Ask(t, "status", nil).Decode(t, &s)
	return s
}

// awaitTrouble waits until status tells of the launcher, or does not.
func awaitTrouble(t *testing.T, worker *harness.Daemon, reason string) (s troubled) {
	t.Helper()
	harness.Until(t, func() string {
		s = statusOf(t, worker)
		switch {
		case reason == "" && s.Launcher != nil:
			return "status still says " + s.Launcher.Broken
		case reason != "" && (s.Launcher == nil || !strings.Contains(s.Launcher.Broken, reason)):
			return fmt.Sprintf("status says %+v, not %q", s.Launcher, reason)
		}
		return ""
	})
	return s
}

// Regression: a launcher that was removed while the worker ran failed thousands of rows within seconds, and the log said
// nothing of it.
func TestLauncherThatBreaksWhileTheWorkerRuns(t *testing.T) {
	t.Parallel()
	remove := func(t *testing.T, path string) func() {
		must.Do(t, os.Rename(path, path+".away"))
		return func() {
			must.Do(t, os.Rename(path+".away", path))
		}
	}
	folder := func(t *testing.T, path string) func() { return remove(t, filepath.Join(filepath.Dir(path), "cwd")) }
	for name, c := range map[string]struct {
		harm   func(t *testing.T, path string) (mend func())
		reason string
	}{
		"removed":                     {remove, "launch.sh: no such file"},
		"its working folder vanished": {folder, "cwd: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			breakAndMend(t, c.harm, c.reason)
		})
	}
}

// breakAndMend has a worker with a backlog lose its launcher, and get it back.
func breakAndMend(t *testing.T, harm func(*testing.T, string) func(), reason string) {
	const rows = 200
	db := harness.NewDatabase(t)
	path := program(t, sound, 0o755)
	cwd := filepath.Join(filepath.Dir(path), "cwd")
	must.Do(t, os.Mkdir(cwd, 0o755))
	worker := db.Worker(t, "worker", path+" {id}", map[string]int{"a": 4, "b": 4}).
		With(harness.Settings{"launcher.cwd": cwd}).StartWorker(t)
	mend := harm(t, path)
	db.InsertMany(t, rows, "a", "waiting")
	db.Insert(t, rows+1, "b", "manual")
	client := harness.Dial(t, worker.Addr)
	client.Ask(t, "poll", nil)
	s := awaitTrouble(t, worker, reason)
	if why := s.Targets["a"].Why; !strings.Contains(why, reason) {
		t.Errorf("target a: %q; want the reason", why)
	}
	var answer harness.Jobs
	client.Ask(t, "run-manual", map[string]any{"ids": []int{rows + 1}}).Decode(t, &answer)
	if refusal := answer.Errors[fmt.Sprint(rows+1)]; !strings.Contains(refusal, "was not run") || !strings.Contains(refusal, reason) {
		t.Errorf("run-manual is answered with %+v, want why it was not run", answer)
	}
	db.AwaitCount(t, rows, "status = 'waiting' AND result IS NULL AND time_started = 0")
	db.AwaitCount(t, 1, "status = 'manual'")
	for range 20 { // as pokes come
		client.Ask(t, "poll", nil)
	}

	mend()
	db.AwaitCount(t, rows, "status = 'done' AND result = 'ok'")
	s = awaitTrouble(t, worker, "")
	if most := 6*rows + 100; s.Journal.Events > most {
		t.Errorf("%d events for %d jobs, want %d at most: the worker did not rest", s.Journal.Events, rows, most)
	}
	client.Ask(t, "run-manual", map[string]any{"ids": []int{rows + 1}}).Decode(t, &answer)
	if got := answer.Jobs[fmt.Sprint(rows+1)]; got.Result != "ok" {
		t.Errorf("then run-manual is answered with %+v", answer)
	}
	for _, once := range []string{"no job can be started; until one can, nothing is claimed", "jobs can be started again"} {
		lines := linesWith(worker.Output(), once)
		if len(lines) != 1 || !strings.Contains(lines[0], reason) {
			t.Errorf("the log says %q: %q; want it once, with %q", once, lines, reason)
		}
	}
}

// linesWith are the lines of a text that have a part in them.
func linesWith(text, part string) (lines []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			lines = append(lines, line)
		}
	}
	return lines
}

// A program that was executed and says 126 or 127 itself has run.
func TestExitCodesOfShellsAreOutcomes(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	worker := db.Worker(t, "worker", program(t, "#!/bin/sh\nexit $1\n", 0o755)+" {id}", map[string]int{"a": 1}).StartWorker(t)
	for _, id := range []int64{126, 127} {
		db.Insert(t, id, "a", "waiting")
	}
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	for _, id := range []int64{126, 127} {
		if row := db.AwaitDone(t, id); harness.Text(row.Result) != "fail" || row.Code == nil || *row.Code != int(id) {
			t.Errorf("%s", row)
		}
	}
	if s := statusOf(t, worker); s.Launcher != nil {
		t.Errorf("status says %+v", s.Launcher)
	}
}

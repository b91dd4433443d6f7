package lifecycle

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A launcher of one target has what it does not say from the common one: command, folder and
// variables each by itself. What is read again on SIGHUP holds for the jobs that start then.
func TestLaunchersOfTargets(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	common, own := t.TempDir(), t.TempDir()
	says := func(word string) string {
		return harness.Script(t, fmt.Sprintf(`echo "%s $1 in $(pwd) with $A $B"`, word)) + " {id}"
	}
	settings := db.Worker(t, "worker", says("common"), map[string]int{"a": 1, "b": 1, "c d": 1, "e": 1}).With(harness.Settings{
		"launcher.cwd": common, "launcher.env.A": "a1", "launcher.env.B": "b1",
		"target.b.launcher": says("own"), "target.c d.launcher.cwd": own, "target.e.launcher.env.B": "b2",
	})
	worker := settings.StartWorker(t)
	client := harness.Dial(t, worker.Addr)
	id := int64(0)
	expect := func(target, want string) {
		t.Helper()
		id++
		db.Insert(t, id, target, "waiting")
		client.Ask(t, "poll", nil)
		want = strings.Replace(want, "ID", fmt.Sprint(id), 1) + "\n"
		if row := db.AwaitDone(t, id); harness.Text(row.Stdout) != want {
			t.Errorf("target %s: %s, want %q", target, row, want)
		}
	}
	expect("a", "common ID in "+common+" with a1 b1")
	expect("b", "own ID in "+common+" with a1 b1")
	expect("c d", "common ID in "+own+" with a1 b1")
	expect("e", "common ID in "+common+" with a1 b2")

	changed := settings.Without("target.b.launcher").With(harness.Settings{"target.a.launcher": says("new"), "launcher.env.A": "a2"})
	must.Do(t, os.WriteFile(worker.Config, []byte(changed.String()), 0o600))
	worker.Signal(t, syscall.SIGHUP)
	awaitReadAgain(t, worker)
	expect("a", "new ID in "+common+" with a2 b1")
	expect("b", "common ID in "+common+" with a2 b1")
	expect("e", "common ID in "+common+" with a2 b2")
}

func awaitReadAgain(t *testing.T, worker *harness.Daemon) {
	t.Helper()
	harness.Until(t, func() string {
		if !strings.Contains(worker.Output(), "configuration was read again") {
			return "not read again: " + worker.Output()
		}
		return ""
	})
}

package refusal

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// A launcher of one target that can't be executed ends the start as the common one does, and so it
// is refused when the file is read again. Both name the section.
func TestLauncherOfATargetThatCannotBeExecuted(t *testing.T) {
	t.Parallel()
	const reason = "launcher of [target a]: it can't be executed: /nowhere/launcher: no such file"
	db := harness.NewDatabase(t)
	sound := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1, "b": 1})
	broken := sound.With(harness.Settings{"target.a.launcher": "/nowhere/launcher {id}"})
	code, output := broken.Refused(t)
	expect(t, code, 1, output, reason)
	code, report := check(t, "jobd", broken)
	expect(t, code, 1, report, "wrong    "+reason)

	worker := sound.StartWorker(t)
	if err := os.WriteFile(worker.Config, []byte(broken.With(harness.Targets(map[string]int{"b": 5})).String()), 0o600); err != nil {
		t.Fatal(err)
	}
	worker.Signal(t, syscall.SIGHUP)
	harness.Until(t, func() string {
		if !strings.Contains(worker.Output(), reason) {
			return "not refused: " + worker.Output()
		}
		return ""
	})
	var status struct {
		Targets map[string]struct{ Concurrency int }
	}
	harness.Dial(t, worker.Addr).Ask(t, "status", nil).Decode(t, &status)
	if now := status.Targets["b"].Concurrency; now != 1 {
		t.Errorf("something of it was taken over: target b has %d slots", now)
	}
}

package audit

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// The history says which keys a reload changed, those of a target's section too. A key that counts
// from the next start on is named in the log, for as long as it differs.
func TestReloadOfTerms(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "node-1", "/bin/echo {id}", map[string]int{"mail": 1}).
		With(harness.Settings{"target.mail.kill_after": "1", "target.mail.timeout": "1m", "target.mail.launcher": "/bin/echo own {id}"})
	worker := settings.StartWorker(t)
	reload := func(settings harness.Settings, n int) {
		t.Helper()
		if err := os.WriteFile(worker.Config, []byte(settings.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		worker.Signal(t, syscall.SIGHUP)
		harness.Until(t, func() string {
			if strings.Count(worker.Output(), "configuration was read again") != n {
				return "not read again: " + worker.Output()
			}
			return ""
		})
	}
	const later = "some keys that were changed take effect at the next start"
	settings = settings.With(harness.Settings{"target.mail.timeout": "2m", "target.mail.rate": "5/s"})
	reload(settings, 1)
	expect(t, 0, []string{"reloaded", "changed=target.mail.rate,target.mail.timeout"}, worker.Addr, "journal", "log", "--kind", "reloaded")
	expect(t, 0, []string{"opened", `launchers="mail: /bin/echo own {id}"`}, worker.Addr, "journal", "log", "--kind", "opened")
	if strings.Contains(worker.Output(), later) {
		t.Errorf("the log says what is not so: %s", worker.Output())
	}

	reload(settings.With(harness.Settings{"use_columns": "priority", "prefetch": "7"}), 2)
	reload(settings.With(harness.Settings{"use_columns": "priority", "target.mail.launcher": "/bin/echo new {id}"}), 3)
	expect(t, 0, []string{`launchers="mail: /bin/echo new {id}"`, "changed=prefetch,target.mail.launcher"}, worker.Addr, "journal", "log", "--kind", "reloaded")
	if n := strings.Count(worker.Output(), later); n != 2 || !strings.Contains(worker.Output(), "prefetch, use_columns") {
		t.Errorf("the log says %d times which keys are to wait: %s", n, worker.Output())
	}
}

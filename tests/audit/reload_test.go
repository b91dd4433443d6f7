package audit

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// A configuration with two targets that are one to the table is refused as a whole, and the history says so.
func TestRefusedReloadIsNotToldAsDone(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "node-1", "/bin/echo {id}", map[string]int{"default": 1})
	worker := settings.StartWorker(t)
	both := settings.With(harness.Targets(map[string]int{"default": 2, "DEFAULT": 1}))
	if err := os.WriteFile(worker.Config, []byte(both.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	worker.Signal(t, syscall.SIGHUP)
	harness.Until(t, func() string {
		if !strings.Contains(worker.Output(), "is refused; the old one") {
			return "not refused: " + worker.Output()
		}
		return ""
	})
	log := expect(t, 0, []string{`request=reload`, `by=SIGHUP`}, worker.Addr, "journal", "log")
	if strings.Contains(log, " reloaded ") {
		t.Errorf("something of it was taken over:\n%s", log)
	}
}

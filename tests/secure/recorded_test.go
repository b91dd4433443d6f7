package secure

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// A worker does not take up a master's journal: their histories would be one.
func TestAWorkerTakesNoMastersJournal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	master := harness.StartMaster(t, harness.Settings{"journal_dir": dir})
	master.Signal(t, syscall.SIGTERM)
	master.ExitCode(t)
	settings := harness.NewDatabase(t).Worker(t, "w1", "/bin/true {id}", map[string]int{"a": 1})
	if code, said := settings.With(harness.Settings{"journal_dir": dir}).Refused(t); code != 1 || !strings.Contains(said, "is a master's: the worker needs a folder of its own (key journal_dir)") {
		t.Errorf("exit code %d: %s", code, said)
	}
}

package refusal

import (
	"strings"
	"testing"

	"jobd/tests/harness"
)

// Where a password's file can't be read, that is what --check tells: what would be asked with the
// password is not asked without it, and not said to refuse it.
func TestCheckWithoutThePasswords(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t, harness.Settings{"password": "open sesame"})
	worker := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).Without("password", "mysql_password").With(harness.MasterOf(master)).
		With(harness.Settings{"password_file": "password", "mysql_password_file": "mysql_password"})
	code, report := check(t, "jobd", worker)
	if code != 2 || strings.Count(report, "CREDENTIALS_DIRECTORY=/run/credentials/jobd.service") != 2 {
		t.Errorf("exit code %d:\n%s", code, report)
	}
	for line := range strings.Lines(report) {
		if strings.HasPrefix(line, "wrong") && !strings.Contains(line, "password_file") {
			t.Errorf("what follows from it is told, too: %s", line)
		}
	}
}

package refusal

import (
	"path/filepath"
	"strings"
	"testing"

	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 4) }

// complete is a configuration with nothing wrong in it; no server is asked before it is checked.
func complete(t *testing.T) harness.Settings {
	return harness.Settings{
		"host": "127.0.0.1", "port": harness.FreePort(t),
		"mysql_host": "127.0.0.1", "mysql_port": "3306", "mysql_user": "jobd",
		"mysql_password": "do-not-tell", "mysql_database": "application",
		"launcher": "/bin/true {id}", "journal_dir": filepath.Join(t.TempDir(), "journal"),
	}.With(harness.Targets(map[string]int{"a": 1}))
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	code, output := complete(t).Without("launcher", "mysql_user").
		With(harness.Settings{"port": "x", "on_crash": "y", "[targets] a": "0"}).Refused(t)
	expect(t, code, 2, output, "port", "on_crash", "launcher", "mysql_user", "targets.a")
}

// expect compares an exit code and looks for words in what was said. The
// password of complete must never be among them.
func expect(t *testing.T, code, want int, output string, words ...string) {
	t.Helper()
	if code != want {
		t.Errorf("exit code %d, want %d:\n%s", code, want, output)
	}
	for _, word := range words {
		if !strings.Contains(output, word) {
			t.Errorf("it does not say %q:\n%s", word, output)
		}
	}
	if strings.Contains(output, "do-not-tell") {
		t.Errorf("it tells the password:\n%s", output)
	}
}

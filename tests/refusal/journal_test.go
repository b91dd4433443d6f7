package refusal

import (
	"os"
	"path/filepath"
	"testing"

	"jobd/tests/harness"
)

// Regression: a journal that root has made once was told with "permission denied" alone. A start and
// --check name the owner, the account, and the command that mends it.
func TestJournalOfAnotherAccount(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give the worker an account of its own")
	}
	for name, c := range map[string]struct {
		folder, file os.FileMode // root's; 0: there is none, or it is the worker's
		want         func(journal string) string
	}{
		"a folder of root's": {0o700, 0, func(journal string) string {
			return journal + ": user nobody may not write it (it is root's, mode 0700); chown -R nobody " + journal
		}},
		"one that others read": {0o755, 0, func(journal string) string {
			return journal + ": user nobody may not write it (it is root's, mode 0755); chown -R nobody " + journal
		}},
		"a file of root's": {0, 0o600, func(journal string) string {
			return ": user nobody may not write it (it is root's, mode 0600); chown -R nobody " + journal
		}},
		"a folder above it": {0, 0, func(journal string) string {
			return filepath.Dir(journal) + ": user nobody may not write it (it is root's, mode 0755); install -d -o nobody -m 700 " + journal
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := homeOf(t, nobody)
			journal := filepath.Join(home, "state", "journal")
			if err := os.Mkdir(filepath.Dir(journal), 0o755); err != nil {
				t.Fatal(err)
			}
			if c.folder|c.file != 0 {
				ofRoot(t, journal, c.folder, c.file)
			}
			config := filepath.Join(home, "jobd.conf")
			writeFor(t, nobody, config, harness.Settings{
				"host": "127.0.0.1", "port": "0", "store": "sqlite", "sqlite_path": filepath.Join(home, "jobs.db"),
				"launcher": "/bin/true {id}", "targets.a": "1", "journal_dir": journal,
			}.String(), 0o600)
			for _, args := range [][]string{{"--config", config}, {"--config", config, "--check"}} {
				worker := byNobody(t, home, args...)
				output, _ := worker.CombinedOutput()
				expect(t, worker.ProcessState.ExitCode(), 1, string(output), c.want(journal))
			}
		})
	}
}

// ofRoot makes a journal's folder of root's, or the worker's with files of root's.
func ofRoot(t *testing.T, journal string, folder, file os.FileMode) {
	t.Helper()
	err := os.Mkdir(journal, 0o700)
	if err == nil && folder != 0 {
		err = os.Chmod(journal, folder)
	}
	if err == nil && file != 0 {
		err = os.Chown(journal, nobody, nobody)
	}
	for _, name := range []string{"lock", "00000000000000000001.log"} {
		if err == nil && file != 0 {
			err = os.WriteFile(filepath.Join(journal, name), nil, file)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

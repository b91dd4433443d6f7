package gearman

import (
	"path/filepath"
	"testing"

	"jobd/tests/harness"
)

// site is the settings of a jobd whose jobs are Gearman's, in a table of its own.
func site(t testing.TB) (settings harness.Settings, addr, table string) {
	t.Helper()
	folder := t.TempDir()
	addr, table = "127.0.0.1:"+harness.FreePort(t), filepath.Join(folder, "jobs.db")
	return harness.Settings{
		"host": "127.0.0.1", "port": harness.FreePort(t), "name": "node",
		"store": "sqlite", "sqlite_path": table, "journal_dir": filepath.Join(folder, "journal"),
		"gearman_listen": addr, "on_crash": "requeue", "max_attempts": "1000", "log_level_console": "info",
	}, addr, table
}

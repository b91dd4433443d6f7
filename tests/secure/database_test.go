package secure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/net/cert/certtest"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A worker whose account may come with TLS only runs jobs; without TLS, or with a server that nobody vouches
// for, --check names the keys that mend it.
func TestAWorkerWithTLSToTheDatabase(t *testing.T) {
	t.Parallel()
	authority, folder := certtest.New(t), t.TempDir()
	file, key := authority.Issue(t, folder, "127.0.0.1")
	for path, mode := range map[string]os.FileMode{filepath.Dir(folder): 0o755, folder: 0o755, file: 0o644, key: 0o644} { // the server has an account of its own
		must.Do(t, os.Chmod(path, mode))
	}
	server := must.Get(dbserver.Start(t.Context(), dbserver.Options{Args: []string{"--ssl-cert=" + file, "--ssl-key=" + key}}))(t)
	t.Cleanup(func() { _ = server.Close() })
	if !server.IsMariaDB() {
		t.Skip("the server's root folder does not have the certificate")
	}
	db := harness.NewDatabaseOn(t, server)
	for _, host := range []string{"%", "localhost"} {
		db.Exec(t, "ALTER USER '"+db.Account.User+"'@'"+host+"' REQUIRE SSL")
	}
	settings := db.Worker(t, "w1", harness.Script(t, "echo job $1")+" {id}", map[string]int{"a": 2})
	trusting := settings.With(harness.Settings{"mysql_tls": "verify", "mysql_tls_ca": authority.File})
	db.Exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES (1, 'a', UNIX_TIMESTAMP(), 'waiting')")
	trusting.StartWorker(t)
	harness.Until(t, func() string {
		if db.Count(t, "id = 1 AND status = 'done' AND result = 'ok'") == 1 {
			return ""
		}
		return "job 1 is not done"
	})
	for name, test := range map[string]struct {
		settings harness.Settings
		want     string
		code     int
	}{
		"right":             {trusting, "ok       table", 0},
		"no TLS":            {settings, "Access denied", 1},
		"foreign authority": {trusting.With(harness.Settings{"mysql_tls_ca": certtest.New(t).File}), "mysql_tls_ca", 1},
		"another name":      {trusting.With(harness.Settings{"mysql_tls_name": "db.example"}), "mysql_tls_name", 1},
	} {
		own := test.settings.With(harness.Settings{"port": harness.FreePort(t), "journal_dir": filepath.Join(t.TempDir(), "journal")})
		d := harness.Launch(t, "jobd", own.Write(t), own.Addr(), "--check")
		if code := d.ExitCode(t); code != test.code || !strings.Contains(d.Output(), test.want) {
			t.Errorf("%s: exit code %d, want %d, and %q:\n%s", name, code, test.code, test.want, d.Output())
		}
	}
}

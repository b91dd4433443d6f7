package systemd

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A worker, its master and jobctl take their passwords from credentials, as units have them. A
// password that has changed is told at a SIGHUP, as one in the configuration is.
func TestCredentials(t *testing.T) {
	t.Parallel()
	db, dir := harness.NewDatabase(t), t.TempDir()
	keep := func(name, password string) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(password+"\n"), 0o600))
	}
	keep("net", "s3cret")
	keep("db", db.Account.Password)
	launch := func(program string, s harness.Settings) *harness.Daemon {
		binary := harness.Script(t, "CREDENTIALS_DIRECTORY="+dir+" exec "+harness.Program(t, program)+` "$@"`)
		return harness.LaunchBinary(t, binary, s.Write(t), s.Addr()).Ready(t)
	}
	net := harness.Settings{"host": "127.0.0.1", "password_file": "net", "log_level_console": "info"}
	master := launch("jobd-master", net.With(harness.Settings{"port": harness.FreePort(t)}))
	worker := launch("jobd", db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).Without("mysql_password").
		With(net, harness.MasterOf(master), harness.Settings{"mysql_password_file": "db"}))
	harness.AwaitWorkers(t, master, "s3cret", 1)
	db.Insert(t, 1, "a", "waiting")
	client := harness.Dial(t, worker.Addr)
	client.Authorise(t, "s3cret")
	client.Ask(t, "poll", nil)
	db.AwaitDone(t, 1)

	keep("net", "another")
	worker.Signal(t, syscall.SIGHUP)
	tells(t, worker, `keys="password"`, "keys=password")
	must.Do(t, os.Remove(filepath.Join(dir, "db")))
	worker.Signal(t, syscall.SIGHUP)
	tells(t, worker, "mysql_password_file: "+dir+"/db: no such file; the unit's LoadCredential puts it there, under this name")
	if strings.Contains(worker.Output(), "another") {
		t.Error("the log has the password")
	}
}

// tells waits until one of the texts is in the daemon's log.
func tells(t *testing.T, d *harness.Daemon, texts ...string) {
	t.Helper()
	harness.Until(t, func() string {
		for _, text := range texts {
			if strings.Contains(d.Output(), text) {
				return ""
			}
		}
		return "not in the log: " + texts[0]
	})
}

// Package secure tries what keeps out who does not belong, with real daemons.
package secure

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/net/cert/certtest"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		jobsTries()
		return
	}
	harness.MainAtOnce(m, 4)
}

// offered are the settings of a daemon with a certificate.
func offered(t *testing.T, authority *certtest.Authority, folder, mode string) harness.Settings {
	t.Helper()
	file, key := authority.Issue(t, folder, "127.0.0.1")
	return harness.Settings{"tls": mode, "tls_cert": file, "tls_key": key}
}

// jobctl runs it against a daemon, and gives what it says and its exit code.
func jobctl(t *testing.T, d *harness.Daemon, args ...string) (said string, code int) {
	t.Helper()
	return jobctlAs(t, d, "the password of all of them", args...)
}

// jobctlAs is jobctl with a password or token.
func jobctlAs(t *testing.T, d *harness.Daemon, secret string, args ...string) (said string, code int) {
	t.Helper()
	host, port, _ := strings.Cut(d.Addr, ":")
	cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), append([]string{"--config=", "--host", host, "--port", port}, args...)...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "JOBCTL_PASSWORD=" + secret}
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// awaitSaid waits until a daemon has written something.
func awaitSaid(t *testing.T, d *harness.Daemon, text string) {
	t.Helper()
	harness.Until(t, func() string {
		if strings.Contains(d.Output(), text) {
			return ""
		}
		return "not said: " + text
	})
}

// A master that requires TLS, a worker that verifies it, and jobctl that verifies both: jobs run, and their
// output comes back. Who comes without TLS is told so, and who is not trusted gets no password.
func TestAFleetWithTLS(t *testing.T) {
	t.Parallel()
	const password = "the password of all of them"
	authority := certtest.New(t)
	folder := t.TempDir()
	master := startRequired(t, harness.Settings{"password": password, "log_level_console": "debug"}.With(offered(t, authority, folder, "require")))
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "w1", harness.Script(t, "echo job $1")+" {id}", map[string]int{"a": 2}).
		With(harness.MasterOf(master), harness.Settings{"password": password, "master_tls": "verify", "master_tls_ca": authority.File},
			offered(t, authority, t.TempDir(), "allow"))
	worker := settings.StartWorker(t)
	trusting := []string{"--tls", "verify", "--tls-ca", authority.File}
	awaitSaid(t, master, "registered")
	db.Exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES (1, 'a', UNIX_TIMESTAMP(), 'manual'), (2, 'a', UNIX_TIMESTAMP(), 'waiting')")
	for name, test := range map[string]struct {
		at   *harness.Daemon
		args []string
		want string
		code int
	}{
		"run-manual through the master": {master, append(trusting, "--master", "run-manual", "a:1"), "job 1", 0},
		"status of the worker":          {worker, append(trusting, "status"), "w1", 0},
		"the worker without TLS":        {worker, []string{"status"}, "w1", 0},
		"the master without TLS":        {master, []string{"--master", "status"}, "TLS is required here", 1},
		"another name":                  {master, append(trusting, "--tls-name", "db.example", "--master", "status"), "wanted to match db.example", 3},
		"a foreign authority":           {master, []string{"--tls", "verify", "--tls-ca", certtest.New(t).File, "--master", "status"}, "unknown authority", 3},
		"the system's authorities":      {worker, []string{"--tls", "verify", "status"}, "unknown authority", 3},
	} {
		said, code := jobctl(t, test.at, test.args...)
		if !strings.Contains(said, test.want) || code != test.code {
			t.Errorf("%s: exit code %d, want %d; said %q, want %q", name, code, test.code, said, test.want)
		}
	}
	// A certificate is renewed while everybody works: links stay, new ones see the new one.
	before := shown(t, master.Addr)
	authority.Issue(t, folder, "127.0.0.1")
	harness.Until(t, func() string {
		if shown(t, master.Addr) == before {
			return "the former certificate is shown"
		}
		return ""
	})
	if said, code := jobctl(t, master, append(trusting, "--master", "poke", "a")...); code != 0 {
		t.Errorf("poke: exit code %d: %s", code, said)
	}
	if said, code := jobctl(t, master, append(trusting, "--master", "wait", "2", "--timeout", "60")...); code != 0 {
		t.Errorf("wait: exit code %d: %s", code, said)
	}
	if strings.Contains(master.Output()+worker.Output(), password) {
		t.Error("the password is logged")
	}
}

// startRequired starts a master that a plain ping can't tell to be ready.
func startRequired(t *testing.T, settings harness.Settings) *harness.Daemon {
	t.Helper()
	settings = settings.With(harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t)})
	d := harness.Launch(t, "jobd-master", settings.Write(t), settings.Addr())
	harness.Until(t, func() string {
		if shown(t, d.Addr) == "" {
			return "no certificate is shown"
		}
		return ""
	})
	return d
}

// shown is the certificate that a daemon shows to OpenSSL; "" where it shows none.
func shown(t *testing.T, address string) string {
	said := openssl(t, address)
	begin, end := strings.Index(said, "-----BEGIN CERTIFICATE"), strings.Index(said, "-----END CERTIFICATE")
	if begin < 0 || end < 0 {
		return ""
	}
	return said[begin:end]
}

// openssl makes a connection and ends it, and gives all that OpenSSL says.
func openssl(t *testing.T, address string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "openssl", append([]string{"s_client", "-connect", address}, args...)...)
	out, _ := cmd.CombinedOutput() // stdin is empty: it hangs up at once
	return string(out)
}

// A certificate that can't be used ends the start, and --check says so.
func TestACertificateThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	authority, folder := certtest.New(t), t.TempDir()
	settings := harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t)}.With(offered(t, authority, folder, "require"))
	_, other := authority.Issue(t, t.TempDir(), "127.0.0.1")
	for name, test := range map[string]struct {
		change harness.Settings
		want   string
	}{
		"a key that does not fit": {harness.Settings{"tls_key": other}, "private key does not match public key"},
		"no file":                 {harness.Settings{"tls_cert": filepath.Join(folder, "nowhere.pem")}, "nowhere.pem: no such file"},
		"no key":                  {harness.Settings{"tls_key": ""}, "tls_key"},
	} {
		file := settings.With(test.change).Write(t)
		for _, args := range [][]string{nil, {"--check"}} {
			d := harness.Launch(t, "jobd-master", file, settings.Addr(), args...)
			if code := d.ExitCode(t); code == 0 || !strings.Contains(d.Output(), test.want) {
				t.Errorf("%s, %v: exit code %d: %s", name, args, code, d.Output())
			}
		}
	}
}

// A worker that starts again by the order of somebody who knows it by its name is known by that name after
// it, too, though it says that it listens on an address.
func TestRestartOverTLS(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	file, key := authority.Issue(t, t.TempDir(), "localhost")
	db := harness.NewDatabase(t)
	worker := db.Worker(t, "w1", harness.Script(t, "true")+" {id}", map[string]int{"a": 2}).
		With(harness.Settings{"tls_cert": file, "tls_key": key}).StartWorker(t)
	said, code := jobctl(t, worker, "--host", "localhost", "--tls", "verify", "--tls-ca", authority.File, "restart")
	if code != 0 || !strings.Contains(said, "serves again") {
		t.Errorf("exit code %d: %s", code, said)
	}
}

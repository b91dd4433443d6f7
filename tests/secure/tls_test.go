// Package secure tries what keeps out who does not belong, with real daemons.
package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/net/cert/certtest"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
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
	master.AwaitSaid(t, "registered")
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

// browser is somebody's browser, which trusts an authority.
type browser struct {
	http.Client
	address string
}

func newBrowser(t *testing.T, authority *certtest.Authority, address string) *browser {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(must.Get(os.ReadFile(authority.File))(t))
	return &browser{http.Client{
		Jar:       must.Get(cookiejar.New(nil))(t),
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true},
	}, address}
}

// do sends a request, as a page of an origin does, and gives what is answered behind redirects.
func (b *browser) do(t *testing.T, method, path string, form url.Values, header ...string) (code int, body string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), method, b.address+path, strings.NewReader(form.Encode())))(t)
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	request.Header.Set("Accept", "text/html")
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Add(name, value)
	}
	answer := must.Get(b.Do(request))(t)
	defer answer.Body.Close()
	return answer.StatusCode, string(must.Get(io.ReadAll(answer.Body))(t))
}

// Over HTTP both daemons know who asks: by a form over TLS, for as long as the credential is one, also behind a
// restart; and by nothing that a proxy or another page says.
func TestWhoAsksOverHTTP(t *testing.T) {
	t.Parallel()
	const password = "the password of all of them"
	authority := certtest.New(t)
	p := newPeople(t, "here status * localhost")
	ann := p.add("ann", "admin", "*")
	watches := p.add("watches", "status", "*")
	front := func() harness.Settings {
		return harness.Settings{"http_listen": "127.0.0.1:" + harness.FreePort(t), "password": password}.
			With(p.settings(), offered(t, authority, t.TempDir(), "require"))
	}
	worker := harness.NewDatabase(t).Worker(t, "w1", "/bin/true {id}", map[string]int{"mail": 1}).With(front())
	master := harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t), "journal_dir": filepath.Join(t.TempDir(), "journal")}.With(front())
	signedIn, daemons := map[string]*browser{}, map[string]*harness.Daemon{}
	for program, settings := range map[string]harness.Settings{"jobd": worker, "jobd-master": master} {
		start := func() *harness.Daemon {
			d := harness.Launch(t, program, settings.Write(t), settings.Addr())
			harness.Until(t, func() string {
				if shown(t, settings["http_listen"]) == "" {
					return "no certificate is shown"
				}
				return ""
			})
			return d
		}
		d := start()
		at := "https://" + settings["http_listen"]
		is := func(b *browser, who string, header ...string) {
			t.Helper()
			if code, body := b.do(t, "GET", "/sign-in", nil, header...); code != 200 || !strings.Contains(body, "known as "+who) {
				t.Errorf("%s: want %s: %d %s", program, who, code, body)
			}
		}
		b := newBrowser(t, authority, at)
		signedIn[program] = b
		is(b, "here (localhost, 127.0.0.1:")
		if code, body := b.do(t, "GET", "/", nil, "X-Forwarded-For: 127.0.0.1"); code != 401 || !strings.Contains(body, `name="credential"`) {
			t.Errorf("%s: through a proxy: %d %s", program, code, body)
		}
		ours := "Origin: " + at
		wrong := ann[:len(ann)-1] + "x"
		if wrong == ann {
			wrong = ann[:len(ann)-1] + "y"
		}
		for secret, want := range map[string]int{"": 401, "guess": 401, wrong: 401} {
			if code, body := b.do(t, "POST", "/sign-in", url.Values{"credential": {secret}}, ours); code != want {
				t.Errorf("%s: sign-in with %q: %d %s", program, secret, code, body)
			}
		}
		if code, _ := b.do(t, "POST", "/sign-in", url.Values{"credential": {ann}}, "Origin: https://evil.example"); code != 403 {
			t.Errorf("%s: sign-in by another server's page: %d", program, code)
		}
		is(b, "here (localhost")
		if code, body := b.do(t, "POST", "/sign-in", url.Values{"credential": {ann}, "next": {"/healthz"}}, ours); code != 200 {
			t.Errorf("%s: sign-in: %d %s", program, code, body)
		}
		is(b, "ann (token, 127.0.0.1:")
		is(newBrowser(t, authority, at), "password (127.0.0.1:", "Authorization: Bearer "+password)
		if code, body := b.do(t, "POST", "/targets/mail/pause", url.Values{}, ours); program == "jobd" && code == 403 {
			t.Errorf("an act of hers is refused: %s", body)
		}
		for _, header := range []string{ours, "Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: same-site"} {
			if code, _ := b.do(t, "POST", "/nowhere", url.Values{}, header); (code == 403) == (header == ours) {
				t.Errorf("%s: a POST with %s: %d", program, header, code)
			}
		}
		for token, want := range map[string]int{watches: 200, "x": 401} {
			if code, _ := b.do(t, "GET", "/metrics", nil, "Via: 1.1 proxy", "Authorization: Bearer "+token); code != want {
				t.Errorf("%s: numbers through a proxy: %d, want %d", program, code, want)
			}
		}
		answer := must.Get(http.Get("http://" + settings["http_listen"] + "/metrics"))(t)
		said := string(must.Get(io.ReadAll(answer.Body))(t))
		if answer.Body.Close(); answer.StatusCode != 400 || !strings.Contains(said, "TLS is required here") {
			t.Errorf("%s without TLS: %s %s", program, answer.Status, said)
		}

		d.Kill(t)
		d = start()
		daemons[program] = d
		is(b, "ann (token, ")
		key := must.Get(os.Stat(filepath.Join(settings["journal_dir"], "cookie.key")))(t)
		if key.Mode() != 0o600 || key.Size() != 32 {
			t.Errorf("%s: the key is %v, %d bytes", program, key.Mode(), key.Size())
		}
		if strings.Contains(d.Output(), ann) || strings.Contains(d.Output(), password) {
			t.Errorf("%s: a secret is logged", program)
		}
	}
	said, code := jobctl(t, daemons["jobd"], "--tls", "verify", "--tls-ca", authority.File, "journal", "log", "--by", "ann")
	if by := `by="ann (token, 127.0.0.1:PORT)"`; code != 0 || !strings.Contains(ports.ReplaceAllString(said, "PORT"), by) {
		t.Errorf("the journal does not say who has paused the target: exit code %d: %s", code, said)
	}
	p.remove("ann ")
	removed := time.Now()
	for program, b := range signedIn {
		harness.Until(t, func() string {
			if _, body := b.do(t, "GET", "/sign-in", nil); strings.Contains(body, "ann") {
				return program + ": the cookie outlives its token"
			}
			return ""
		})
	}
	t.Logf("the cookies ended after %v", time.Since(removed))
}

// A changed file of principals that can't be used is told where operators look, until it is mended.
func TestARefusedFileOfPrincipalsIsTold(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	fleet := p.fleet("exit 0")
	all := p.add("all", "admin", "*")
	status := func(name string) string { return ask(t, harness.Dial(t, fleet[name].Addr), all, "status", "") }
	told := map[string]string{"worker": `"configRefusedSince"`, "master": `"what":"principals"`}
	awaits := func(is bool) {
		t.Helper()
		for name, word := range told {
			harness.Until(t, func() string {
				if said := status(name); strings.HasPrefix(said, "error") || strings.Contains(said, word) != is {
					return name + ": " + said
				}
				return ""
			})
		}
	}
	awaits(false)
	sound := must.Get(os.ReadFile(p.path))(t)
	must.Do(t, os.WriteFile(p.path, append(sound, "ann everything *\n"...), 0o600))
	awaits(true)
	must.Do(t, os.WriteFile(p.path, sound, 0o600))
	awaits(false)
}

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

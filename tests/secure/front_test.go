package secure

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/net/cert/certtest"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

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
		for secret, want := range map[string]int{"": 401, "guess": 401, ann[:len(ann)-1] + "x": 401} {
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

package page

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"jobd/net/principal"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 3) }

const secret = "a password that is long enough"

// foreign is a target that those with the target mail only must not hear of.
const foreign = "kept-from-others"

var scopes = []string{"status", "read", "submit", "run", "admin"}

// site is a master with a worker, each with its page.
type site struct {
	db      *harness.Database
	master  *harness.Daemon
	worker  *harness.Daemon
	at      map[string]string // the pages' addresses, by "master" and "worker"
	ends    string            // a folder: jobs from 1000 on run until a file of their id is there; 40 to 59 need 64 MiB
	bytes   []byte            // what job 5 writes
	people  string            // the file of principals
	journal string            // the worker's folder
	tokens  map[string]string // by SCOPE-all and SCOPE-mail
}

// newSite starts a fleet.
func newSite(t *testing.T, others ...harness.Settings) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{
		db: harness.NewDatabase(t, harness.TimesTable), ends: dir, at: map[string]string{}, tokens: map[string]string{}, people: filepath.Join(dir, "principals"),
		bytes: bytes.Repeat([]byte("\x00\xff\r\n<b>\x1b[1m\xc3\x28 binary "), 20_000),
	}
	var lines strings.Builder
	for _, scope := range scopes {
		for name, targets := range map[string]string{"all": "*", "mail": "mail"} {
			token, credential, err := principal.NewToken(scope + "-" + name)
			must.Do(t, err)
			s.tokens[scope+"-"+name] = token
			fmt.Fprintln(&lines, scope+"-"+name, scope, targets, credential)
		}
	}
	must.Do(t, os.WriteFile(s.people, []byte(lines.String()), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "bytes"), s.bytes, 0o600))
	own := func(daemon string) harness.Settings {
		s.at[daemon] = "http://127.0.0.1:" + harness.FreePort(t)
		return harness.Settings{"http_listen": s.at[daemon][len("http://"):], "password": secret, "principals_file": s.people}.With(others...)
	}
	s.master = harness.StartMaster(t, own("master").Without("use_columns"), harness.Settings{"journal_dir": filepath.Join(dir, "journal")})
	launcher := harness.Script(t, strings.ReplaceAll(`
if [ $1 = 5 ]; then cat DIR/bytes; exit; fi
if [ $1 -ge 40 ] && [ $1 -lt 60 ]; then dd if=/dev/zero of=/dev/null bs=64M count=3 2>/dev/null; exit 0; fi
echo "word$1 written"
while [ $1 -ge 1000 ] && [ ! -e DIR/$1 ]; do sleep 0.1; done
if [ $(($1 % 10)) = 7 ]; then echo trouble >&2; exit 7; fi`, "DIR", dir))
	settings := s.db.Worker(t, "w1", launcher+" {id}", map[string]int{"mail": 4, foreign: 2}).With(harness.MasterOf(s.master), own("worker"))
	s.journal = settings["journal_dir"]
	s.worker = settings.StartWorker(t)
	harness.AwaitWorkers(t, s.master, secret, 1)
	return s
}

// insert inserts rows, and has the worker look.
func (s *site) insert(t *testing.T, target string, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		s.db.Insert(t, id, target, "waiting")
	}
	s.poll(t, target)
}

func (s *site) poll(t *testing.T, target string) {
	t.Helper()
	w := harness.Dial(t, s.worker.Addr)
	defer w.Close()
	w.Authorise(t, secret)
	answer := w.Ask(t, "poll", map[string]any{"targets": []string{target}})
	must.Equal(t, answer.Error, "")
}

// awaitStarted waits until a job has a process, which its row does not tell: it says running before.
func (s *site) awaitStarted(t *testing.T, id int64) {
	t.Helper()
	w := harness.Dial(t, s.worker.Addr)
	defer w.Close()
	w.Authorise(t, secret)
	harness.Until(t, func() string {
		var running struct {
			Jobs []struct {
				Job int64
				PID int
			}
		}
		w.Ask(t, "running", nil).Decode(t, &running)
		for _, job := range running.Jobs {
			if job.Job == id && job.PID > 0 {
				return ""
			}
		}
		return fmt.Sprintf("job %d has no process: %v", id, running)
	})
}

// end lets a job end that runs until then.
func (s *site) end(t *testing.T, id int64) {
	t.Helper()
	harness.Touch(t, filepath.Join(s.ends, fmt.Sprint(id)))
}

// ask sends a request with a token, or as the header says, and follows no redirect.
func ask(t *testing.T, method, address, token string, form url.Values, header ...string) (code int, body string, answer *http.Response) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(harness.Bounded(t), method, address, strings.NewReader(form.Encode())))(t)
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Set(name, value)
	}
	answer = must.Get(http.DefaultTransport.RoundTrip(request))(t)
	defer answer.Body.Close()
	return answer.StatusCode, string(must.Get(io.ReadAll(answer.Body))(t)), answer
}

// see gives a page as one sees who has the password.
func see(t *testing.T, address string) string {
	t.Helper()
	code, body, _ := ask(t, "GET", address, secret, nil)
	if code != http.StatusOK {
		t.Fatalf("%s: %d %s", address, code, text(body))
	}
	return body
}

// screens are the addresses that show something, and the scopes of those who may see it. A * is for those with all targets.
var screens = []struct{ path, scopes string }{
	{"/", "status read run admin"},
	{"/targets", "status read run admin"},
	{"/targets/mail", "status read run admin"},
	{"/workers", "status read run admin"},
	{"/workers/w1", "status read run admin"},
	{"/rates", "status read run admin"},
	{"/jobs", "read run admin"},
	{"/jobs?status=waiting", "read run admin"},
	{"/jobs?text=written", "read run admin"},
	{"/jobs/1", "read run admin"},
	{"/jobs/1/output/stdout", "read run admin"},
	{"/failed", "read run admin"},
	{"/failed?by=time", "read run admin"},
	{"/schedules", "read run admin"},
	{"/timeline", "read run admin"},
	{"/journal", "read run admin"},
	{"/journal/verify", "read* run* admin*"},
}

var (
	element = regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>|<[^>]*>`)
	spaces  = regexp.MustCompile(`\s+`)
)

// text is what one reads of a page.
func text(body string) string {
	return html.UnescapeString(spaces.ReplaceAllString(element.ReplaceAllString(body, " "), " "))
}

// Everybody sees what their scope lets them see, and nothing of targets that are not theirs.
func TestWhoSeesWhat(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert(t, "mail", 1, 7, 1000)
	s.insert(t, foreign, 2, 17, 1001)
	s.db.Insert(t, 3, foreign, "manual")
	s.db.AwaitCount(t, 4, "status = 'done'")
	s.db.AwaitCount(t, 2, "status = 'running'")
	for daemon, at := range s.at {
		for who, token := range s.tokens {
			scope, targets, _ := strings.Cut(who, "-")
			for _, screen := range screens {
				allowed := strings.Fields(screen.scopes)
				may := slices.Contains(allowed, scope) || targets == "all" && slices.Contains(allowed, scope+"*")
				want := http.StatusForbidden
				if may {
					want = http.StatusOK
				}
				code, body, _ := ask(t, "GET", at+screen.path, token, nil)
				if code != want {
					t.Errorf("%s%s for %s: %d, not %d: %.300s", daemon, screen.path, who, code, want, text(body))
				}
				if targets == "mail" && (strings.Contains(body, foreign) || strings.Contains(body, "/jobs/17") || strings.Contains(body, "/jobs/1001")) {
					t.Errorf("%s%s tells %s of others' targets: %s", daemon, screen.path, who, text(body))
				}
			}
			if targets == "all" {
				continue
			}
			for path, never := range map[string]string{
				"/jobs/2": "word2", "/jobs/2/output/stdout": "word2", "/targets/" + foreign: "Slots", "/jobs?target=" + foreign: "/jobs/2", "/journal?job=2": "word2",
				"/jobs?target=" + foreign + "&status=manual": "/jobs/3", "/timeline?target=" + foreign: "/jobs/2", "/journal?target=" + foreign: "accepted by", "/failed?target=" + foreign: "/jobs/17",
			} {
				code, body, _ := ask(t, "GET", at+path, token, nil)
				if strings.Contains(body, never) || code >= 500 {
					t.Errorf("%s%s for %s: %d %s", daemon, path, who, code, text(body))
				}
			}
		}
		for path := range map[string]bool{"/": true, "/jobs/1": true, "/journal": true} {
			if code, body, _ := ask(t, "GET", at+path, "", nil); code != http.StatusOK && code != http.StatusUnauthorized || strings.Contains(body, foreign) {
				t.Errorf("%s%s for nobody: %d", daemon, path, code)
			}
		}
	}
	s.end(t, 1000)
	s.end(t, 1001)
}

// A master whose workers have yet to come has nothing to show, and says so.
func TestAMasterWithoutWorkers(t *testing.T) {
	t.Parallel()
	at := "127.0.0.1:" + harness.FreePort(t)
	harness.StartMaster(t, harness.Settings{"http_listen": at, "password": secret, "journal_dir": filepath.Join(t.TempDir(), "journal")})
	for _, screen := range screens {
		code, body, _ := ask(t, "GET", "http://"+at+screen.path, secret, nil)
		switch screen.path {
		case "/targets/mail", "/workers/w1":
			if code != http.StatusNotFound {
				t.Errorf("%s: %d %s", screen.path, code, text(body))
			}
		case "/jobs/1/output/stdout", "/journal/verify", "/rates":
			if code != http.StatusServiceUnavailable || !strings.Contains(body, "no worker is registered") {
				t.Errorf("%s: %d %s", screen.path, code, text(body))
			}
		default:
			if code != http.StatusOK {
				t.Errorf("%s: %d %s", screen.path, code, text(body))
			}
		}
	}
	if body := see(t, "http://"+at+"/journal"); !strings.Contains(body, "no worker is registered with the master") {
		t.Errorf("the journal of a master without workers: %s", text(body))
	}
}

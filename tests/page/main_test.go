package page

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
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
	if answer := w.Ask(t, "poll", map[string]any{"targets": []string{target}}); answer.Error != "" {
		t.Fatal(answer.Error)
	}
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

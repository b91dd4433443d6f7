package secure

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/net/cert/certtest"
	"jobd/net/principal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// people is a file of principals under test, and the tokens of those who have one.
type people struct {
	t       *testing.T
	path    string
	lines   map[string]string // by what they begin with, "NAME SCOPE TARGETS"
	tokens  map[string]string
	db      *harness.Database
	workers string // the token of the worker
}

func newPeople(t *testing.T, others ...string) *people {
	t.Helper()
	p := &people{t, filepath.Join(t.TempDir(), "principals"), make(map[string]string), make(map[string]string), nil, ""}
	for _, line := range others {
		p.lines[line] = ""
	}
	p.write()
	return p
}

// add adds somebody with a token, and gives that.
func (p *people) add(name, scope, targets string, options ...string) (token string) {
	p.t.Helper()
	token, credential, err := principal.NewToken(name)
	must.Do(p.t, err)
	if sum := sha256.Sum256([]byte(token)); credential != "token:sha256:"+hex.EncodeToString(sum[:]) {
		p.t.Fatalf("the credential %s is not the digest", credential)
	}
	p.lines[name+" "+scope+" "+targets] = credential + " " + strings.Join(options, " ")
	p.tokens[name] = token
	p.write()
	return token
}

// remove takes a line away.
func (p *people) remove(begins string) {
	for line := range p.lines {
		if strings.HasPrefix(line, begins) {
			delete(p.lines, line)
		}
	}
	p.write()
}

// write puts the file in place in one step.
func (p *people) write() {
	p.t.Helper()
	var text strings.Builder
	for line, credential := range p.lines {
		fmt.Fprintln(&text, line, credential)
	}
	must.Do(p.t, os.WriteFile(p.path+".new", []byte(text.String()), 0o600))
	must.Do(p.t, os.Rename(p.path+".new", p.path))
}

func (p *people) settings() harness.Settings { return harness.Settings{"principals_file": p.path} }

// ask sends a request as original clients do, with a token in its password, and gives the error or the data.
func ask(t *testing.T, w *harness.Wire, token, request, data string) (answer string) {
	t.Helper()
	if data == "" {
		data = "null"
	}
	w.Send(t, fmt.Sprintf(`[0,{"no":7,"type":%q,"data":%s,"password":%q}]`, request, data, token))
	for {
		response, ours := w.Answer(t)
		switch {
		case !ours || response.No != 7:
		case response.Error != "":
			return "error: " + response.Error
		default:
			return string(response.Data)
		}
	}
}

// may are the requests of each daemon, who may ask them by their scope, and data with which they change nothing
// or fail for another reason. restart is asked by those only who may not.
var may = []struct{ daemon, request, scopes, data string }{
	{"worker", "poll", "submit run admin", ""},
	{"worker", "pause", "admin", `{"targets":["nowhere"]}`},
	{"worker", "continue", "admin", `{"targets":["nowhere"]}`},
	{"worker", "recycle", "admin", `{"targets":["nowhere"]}`},
	{"worker", "add-target", "admin", `{"target":"mail","concurrency":1}`},
	{"worker", "set-target-concurrency", "admin", `{"target":"nowhere","concurrency":1}`},
	{"worker", "remove-target", "admin", `{"target":"nowhere"}`},
	{"worker", "status", "status read run admin", ""},
	{"worker", "run-manual", "submit run admin", `{"ids":[9]}`},
	{"worker", "send-signal", "run admin", `{"jobs":{"9":0}}`},
	{"worker", "reload", "admin", ""},
	{"worker", "restart", "", ""},
	{"worker", "running", "read run admin", ""},
	{"worker", "waiting", "status read run admin", ""},
	{"worker", "unfinished", "read run admin", `{"target":"mail"}`},
	{"worker", "explain", "read run admin", `{"ids":[9]}`},
	{"worker", "retry", "run admin", `{"ids":[9]}`},
	{"worker", "output", "read run admin", `{"job":9}`},
	{"worker", "cancel", "run admin", `{"ids":[9]}`},
	{"worker", "recurring", "read run admin", ""},
	{"worker", "run-now", "run admin", `{"ids":[9]}`},
	{"worker", "pause-schedule", "run admin", `{"ids":[9]}`},
	{"worker", "continue-schedule", "run admin", `{"ids":[9]}`},
	{"worker", "journal-anchor", "read run admin", ""},
	{"worker", "journal-rows", "read submit run admin", `{"ids":[9]}`},
	{"worker", "journal-events", "read run admin", ""},
	{"worker", "journal-state", "read run admin", ""},
	{"worker", "journal-verify", "read run admin", ""},
	{"worker", "journal-diff", "read run admin", ""},
	{"worker", "journal-reapply", "admin", `{"dry_run":true}`},
	{"worker", "journal-next", "read run admin", `{"cursor":"x"}`},
	{"worker", "journal-close", "read run admin", `{"cursor":"x"}`},
	{"master", "register-worker", "worker", `{"targets":["x"],"name":""}`},
	{"master", "poke", "submit run admin worker", `{"targets":["mail"]}`},
	{"master", "pause", "admin", `{"targets":["nowhere"]}`},
	{"master", "continue", "admin", `{"targets":["nowhere"]}`},
	{"master", "recycle", "admin", `{"targets":["nowhere"]}`},
	{"master", "status", "status read run admin", ""},
	{"master", "run-manual", "submit run admin", `{"jobs":[{"id":9,"target":"nowhere"}]}`},
	{"master", "send-signal", "run admin", `{"jobs":[{"id":9,"target":"mail","signal":0}]}`},
	{"master", "running", "read run admin", ""},
	{"master", "waiting", "status read run admin", ""},
	{"master", "unfinished", "read run admin", `{"target":"mail"}`},
	{"master", "explain", "read run admin", `{"ids":[9]}`},
	{"master", "output", "read run admin", `{"job":9}`},
	{"master", "cancel", "run admin", `{"ids":[9]}`},
	{"master", "recurring", "read run admin", ""},
	{"master", "retry", "run admin", `{"worker":"w1","ids":[9]}`},
	{"master", "run-now", "run admin", `{"worker":"w1","ids":[9]}`},
	{"master", "pause-schedule", "run admin", `{"worker":"w1","ids":[9]}`},
	{"master", "continue-schedule", "run admin", `{"worker":"w1","ids":[9]}`},
	{"master", "set-target-concurrency", "admin", `{"worker":"w1","target":"nowhere","concurrency":1}`},
	{"master", "reload", "admin", `{"worker":"w1"}`},
	{"master", "restart", "", `{"worker":"w1"}`},
	{"master", "journal-anchor", "read run admin", ""},
	{"master", "journal-rows", "read submit run admin", `{"ids":[9]}`},
	{"master", "journal-events", "read run admin", ""},
	{"master", "journal-state", "read run admin", ""},
	{"master", "journal-verify", "read run admin", ""},
	{"master", "journal-diff", "read run admin", ""},
	{"master", "journal-reapply", "admin", `{"dry_run":true}`},
	{"master", "journal-next", "read run admin", `{"cursor":"x"}`},
	{"master", "journal-close", "read run admin", `{"cursor":"x"}`},
}

// whole are the requests that need all targets.
var whole = []string{"reload", "restart", "journal-verify", "journal-diff", "journal-reapply"}

// A fleet whose every request is asked by somebody of each scope, with all targets and with one: who may gets an
// answer or another error, and who may not is told so.
func TestWhoMayAskWhat(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	fleet := p.fleet("echo $1")
	p.add("nowhere", "admin", "*") // a name that no target has
	for _, scope := range []string{"status", "read", "submit", "run", "admin", "worker"} {
		for kind, targets := range map[string]string{"all-": "*", "some-": "mail,nowhere,x"} {
			p.add(kind+scope, scope, targets)
		}
	}
	links := make(map[string]*harness.Wire)
	harness.Until(t, func() string { // until the file was read
		if a := ask(t, harness.Dial(t, fleet["worker"].Addr), p.tokens["all-admin"], "status", ""); strings.HasPrefix(a, "error") {
			return a
		}
		if a := ask(t, harness.Dial(t, fleet["master"].Addr), p.tokens["all-admin"], "status", ""); strings.HasPrefix(a, "error") {
			return a
		}
		return ""
	})
	for _, test := range may {
		for name, token := range p.tokens {
			kind, scope, _ := strings.Cut(name, "-")
			if kind == "nowhere" || kind == "node" {
				continue
			}
			if links[test.daemon+name] == nil {
				links[test.daemon+name] = harness.Dial(t, fleet[test.daemon].Addr)
			}
			allowed := slices.Contains(strings.Fields(test.scopes), scope) && (kind == "all" || !slices.Contains(whole, test.request))
			if test.request == "restart" && scope == "admin" && kind == "all" {
				continue
			}
			said := ask(t, links[test.daemon+name], token, test.request, test.data)
			refused := strings.HasPrefix(said, "error: "+name+" may not ask for "+test.request+": ")
			if refused == allowed || strings.Contains(said, "invalid password") || strings.Contains(said, "internal error") || strings.Contains(said, "unknown request") {
				t.Errorf("%s: %s by %s: allowed %v, but: %s", test.daemon, test.request, name, allowed, said)
			}
		}
	}
}

// Who may submit jobs may wait for those of its targets, and see their ends; those of other targets do not exist,
// and nothing else is told.
func TestWhoSubmitsJobsMayWaitForThem(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	fleet := p.fleet("echo $1; exit $(($1 - 1))")
	shop := p.add("shop", "submit", "mail")
	for id, target := range map[int64]string{1: "mail", 2: "mail", 3: "reports"} {
		p.db.Insert(t, id, target, "waiting")
	}
	for name, d := range fleet {
		harness.Until(t, func() string { // until the file was read
			return strings.TrimPrefix(ask(t, harness.Dial(t, d.Addr), shop, map[string]string{"worker": "poll", "master": "poke"}[name], `{"targets":["mail"]}`), `"ok"`)
		})
		var flags []string
		if name == "master" {
			flags = append(flags, "--master")
		}
		for _, test := range []struct {
			args, want string
			code       int
		}{
			{"wait 1 --timeout 60", "", 0},
			{"wait mail:1 --timeout 60 --output json", `{"job":1,"status":"done","result":"ok","code":0}`, 0},
			{"wait 1 2 --timeout 60", "job 2: ", 1},
			{"wait 3 --timeout 60", "job 3", 4},
			{"show 1", "shop may not ask for", 1},
			{"tail 1", "shop may not ask for", 1},
			{"journal log", "shop may not ask for", 1},
			{"queue", "shop may not ask for", 1},
		} {
			if said, code := jobctlAs(t, d, shop, append(flags, strings.Fields(test.args)...)...); code != test.code || !strings.Contains(said, test.want) {
				t.Errorf("%s: %s: exit code %d, want %d; said %q, want %q", name, test.args, code, test.code, said, test.want)
			}
		}
		if said := ask(t, harness.Dial(t, d.Addr), shop, "journal-rows", `{"ids":[1,3]}`); strings.Contains(said, `"owner"`) || strings.Contains(said, "reports") || !strings.Contains(said, `"job":1,`) {
			t.Errorf("%s: rows: %s", name, said)
		}
	}
}

// fleet starts a worker and its master, both with the file.
func (p *people) fleet(script string) map[string]*harness.Daemon {
	p.t.Helper()
	token := p.add("w1", "worker", "mail,reports")
	own := harness.Settings{"password": token, "principals_file": p.path}
	master := harness.StartMaster(p.t, p.settings())
	db := harness.NewDatabase(p.t)
	worker := db.Worker(p.t, "w1", harness.Script(p.t, script)+" {id}", map[string]int{"mail": 1, "reports": 1}).
		With(harness.MasterOf(master), own).StartWorker(p.t)
	master.AwaitSaid(p.t, "worker registered")
	delete(p.tokens, "w1")
	p.db, p.workers = db, token
	return map[string]*harness.Daemon{"worker": worker, "master": master}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	must.Do(t, json.Unmarshal([]byte(text), into), "%s", text)
}

// To somebody who has not all targets the others do not exist, whether it asks the worker or its master.
func TestOtherTargetsDoNotExist(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	fleet := p.fleet("echo secret of $1; if [ $1 -gt 100 ]; then while :; do sleep 1; done; fi")
	p.db.Exec(t, `INSERT INTO jobs (id, target, time_created, status) VALUES (1, 'mail', UNIX_TIMESTAMP(), 'manual'), (2, 'reports', UNIX_TIMESTAMP(), 'manual'),
		(3, 'mail', UNIX_TIMESTAMP(), 'waiting'), (4, 'reports', UNIX_TIMESTAMP(), 'waiting'), (2123456101, 'mail', UNIX_TIMESTAMP(), 'manual'), (2123456102, 'reports', UNIX_TIMESTAMP(), 'manual')`)
	all, some := p.add("all", "admin", "*"), p.add("ann", "admin", "mail")
	worker := harness.Dial(t, fleet["worker"].Addr)
	harness.Until(t, func() string {
		if a := ask(t, harness.Dial(t, fleet["worker"].Addr), some, "status", ""); strings.HasPrefix(a, "error") {
			return a
		}
		if a := ask(t, harness.Dial(t, fleet["master"].Addr), some, "status", ""); strings.HasPrefix(a, "error") {
			return a
		}
		return ""
	})
	must.Equal(t, ask(t, worker, all, "poll", ""), `"ok"`)
	p.db.AwaitCount(t, 2, "status = 'done' AND id < 10")
	// What runs: one of each target.
	for _, id := range []string{"2123456101", "2123456102"} {
		go func() {
			w := harness.Dial(t, fleet["worker"].Addr)
			w.Send(t, fmt.Sprintf(`[0,{"no":7,"type":"run-manual","data":{"ids":[%s]},"password":%q}]`, id, all))
		}()
	}
	p.db.AwaitCount(t, 2, "status = 'running'")
	master := harness.Dial(t, fleet["master"].Addr)
	for _, test := range []struct {
		request, data string
		want, never   []string // in what is said
	}{
		{"status", "", []string{`"mail"`}, []string{"reports"}},
		{"status", `{"poll_workers":true}`, []string{`"mail"`}, []string{"reports"}},
		{"running", "", []string{`"job":2123456101`}, []string{"2123456102", "reports"}},
		{"running", `{"targets":["reports"]}`, []string{"ann may look at mail, not reports"}, []string{"2123456102"}},
		{"waiting", "", []string{`"mail"`}, []string{"reports"}},
		{"unfinished", `{"target":"reports"}`, []string{"ann may look at mail, not reports"}, []string{"2123456102"}},
		{"explain", `{"ids":[2123456101,2123456102,2,77]}`, []string{`"job":2123456101`}, []string{"reports", "secret of 2123456102"}},
		{"output", `{"job":2123456102}`, []string{`unknown`}, []string{"c2VjcmV0"}},
		{"output", `{"job":4}`, []string{`unknown`}, []string{"c2VjcmV0"}},
		{"output", `{"job":3}`, []string{`c2VjcmV0`}, nil}, // it is in base64
		{"journal-rows", `{"ids":[2,3]}`, []string{`"job":3`}, []string{"reports", `"job":2`}},
		{"pause", `{"targets":["reports"]}`, []string{"ann may command mail, not reports"}, nil},
		{"pause", "", []string{`"ok"`}, nil},
		{"all", `{"poll_workers":true}`, []string{`"mail":{"paused":true`, `"reports":{"paused":false`}, nil},
		{"continue", "", []string{`"ok"`}, nil},
		{"recycle", "", []string{`"ok"`}, nil},
		{"journal-state", `{"target":"reports"}`, []string{"ann may look at mail, not reports"}, nil},
		{"journal-events", `{"target":"reports"}`, []string{"ann may look at mail, not reports"}, nil},
		{"cancel", `{"ids":[2123456102,2],"rows":true}`, []string{"job 2 not found", "job 2123456102 not found"}, []string{"cancelling", "ignored"}},
	} {
		for name, w := range map[string]*harness.Wire{"worker": worker, "master": master} {
			said := ""
			if test.request == "all" { // how it stands, told by somebody who has all
				said = ask(t, harness.Dial(t, fleet[name].Addr), all, "status", test.data)
			} else {
				said = ask(t, w, some, test.request, test.data)
			}
			for _, want := range test.want {
				check.Contains(t, said, want, "%s: %s %s: not said", name, test.request, test.data)
			}
			for _, never := range test.never {
				if strings.Contains(said, never) {
					t.Errorf("%s: %s %s: said: %q: %s", name, test.request, test.data, never, said)
				}
			}
		}
	}
	for request, data := range map[string]string{
		"run-manual": `{"ids":[2]}`, "retry": `{"ids":[4]}`, "run-now": `{"ids":[2]}`, "pause-schedule": `{"ids":[2]}`,
	} {
		check.Contains(t, ask(t, worker, some, request, data), "not found", "%s of a foreign job", request)
	}
	if said := ask(t, worker, some, "send-signal", `{"jobs":{"2123456101":0,"2123456102":9}}`); said != `{"2123456101":true,"2123456102":false}` {
		t.Errorf("signals: %s", said)
	}
	// A client may lie to the master about a job's target.
	if said := ask(t, master, some, "send-signal", `{"jobs":[{"id":2123456102,"target":"mail","signal":9}]}`); said != `{"2123456102":false}` {
		t.Errorf("a signal through the master: %s", said)
	}
	if said := ask(t, master, some, "run-manual", `{"jobs":[{"id":2,"target":"mail"}]}`); !strings.Contains(said, "job 2 not found") {
		t.Errorf("a job by hand through the master: %s", said)
	}
	if said := ask(t, master, some, "run-manual", `{"jobs":[{"id":2,"target":"reports"}]}`); said != "error: ann may run jobs of mail, not reports" {
		t.Errorf("a job by hand of a target that is named: %s", said)
	}
	if said := ask(t, master, some, "poke", `{"targets":["reports"]}`); said != "error: ann may run jobs of mail, not reports" {
		t.Errorf("a poke: %s", said)
	}
	// The journal: events and states of jobs of mail alone, and of the worker only what is about mail alone.
	for _, stream := range []struct{ request, data string }{{"journal-events", ""}, {"journal-state", ""}, {"journal-state", `{"under_way":true,"at":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`}} {
		var opened struct{ Cursor string }
		request := stream.request
		decode(t, ask(t, worker, some, request, stream.data), &opened)
		said := ask(t, worker, some, "journal-next", fmt.Sprintf(`{"cursor":%q}`, opened.Cursor))
		if strings.Contains(said, "reports") || strings.Contains(said, `"job":2123456102`) || !strings.Contains(said, `"job":2123456101`) {
			t.Errorf("%s: %s", request, said)
		}
	}
	// An id that was a job of another target before: what that has written and how it ended stays there.
	p.db.Exec(t, "DELETE FROM jobs WHERE id = 4")
	p.db.Insert(t, 4, "mail", "ignored")
	for request, data := range map[string]string{"output": `{"job":4}`, "explain": `{"ids":[4]}`} {
		if said := ask(t, worker, some, request, data); strings.Contains(said, "c2VjcmV0") || strings.Contains(said, "done") || strings.Contains(said, "reports") {
			t.Errorf("%s of an id that was another target's: %s", request, said)
		}
	}
	// A stream is of who has opened it, over the master's link to the worker, too.
	var relayed struct {
		Workers []struct {
			Address string
			Data    struct{ Cursor string }
		}
	}
	decode(t, ask(t, harness.Dial(t, fleet["master"].Addr), all, "journal-events", ""), &relayed)
	of := fmt.Sprintf(`{"worker":%q,"cursor":%q}`, relayed.Workers[0].Address, relayed.Workers[0].Data.Cursor)
	if said := ask(t, master, some, "journal-next", of); strings.Contains(said, "reports") || !strings.Contains(said, "error") {
		t.Errorf("a stream of somebody else: %s", said)
	}
	if said := ask(t, harness.Dial(t, fleet["master"].Addr), all, "journal-next", of); !strings.Contains(said, "reports") {
		t.Errorf("a stream of one's own: %s", said)
	}
	// The operator's tool, of somebody with one target and of somebody who may submit only.
	shop := p.add("shop", "submit", "mail")
	harness.Until(t, func() string {
		if said := ask(t, harness.Dial(t, fleet["master"].Addr), shop, "poke", `{"targets":["mail"]}`); said != `"ok"` {
			return said
		}
		return ""
	})
	host, port, _ := strings.Cut(fleet["master"].Addr, ":")
	for _, test := range []struct {
		token string
		args  []string
		want  string
		code  int
	}{
		{some, []string{"failed"}, "", 0},
		{some, []string{"journal", "log", "--job", "3"}, "done", 0},
		{some, []string{"retry", "3", "--yes"}, "3", 0},
		{some, []string{"wait", "1000", "--timeout", "20"}, "1000", 4},
		{shop, []string{"wait", "3", "--timeout", "3"}, "job 3 is ", 5}, // the one slot is taken
		{shop, []string{"wait", "2123456102", "--timeout", "20"}, "2123456102", 4},
	} {
		cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), append([]string{"--config=", "--master", "--host", host, "--master-port", port}, test.args...)...)
		cmd.Env = []string{"JOBCTL_PASSWORD=" + test.token}
		said, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(string(said), test.want) || strings.Contains(string(said), "reports") {
			t.Errorf("%q: exit code %d, want %d; said %q, want %q", test.args, code, test.code, said, test.want)
		}
	}
	// Who asks for what does not exist has asked all the same.
	var opened struct{ Cursor string }
	decode(t, ask(t, worker, all, "journal-events", `{"kinds":["refused"]}`), &opened)
	refused := ask(t, worker, all, "journal-next", fmt.Sprintf(`{"cursor":%q}`, opened.Cursor))
	for _, request := range []string{"run-manual", "retry", "run-now", "cancel"} {
		if !strings.Contains(refused, `"request":"`+request+`"`) || !strings.Contains(refused, `"by":"ann (token`) {
			t.Errorf("the journal has no refused %s by ann: %s", request, refused)
		}
	}
	p.db.AwaitCount(t, 1, "id = 2 AND status = 'manual'")
	p.db.AwaitCount(t, 2, "id > 100 AND status = 'running'")
	ask(t, worker, all, "send-signal", `{"jobs":{"2123456101":9,"2123456102":9}}`)
	p.db.AwaitCount(t, 2, "id > 100 AND status = 'done'")
}

// Whoever asks for a change is named in the journal, with how it is known, also where a master passes it on.
func TestEveryActHasAName(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "here admin * localhost")
	fleet := p.fleet("echo $1")
	ann := p.add("ann", "admin", "*")
	read := p.add("bob", "read", "*")
	harness.Until(t, func() string {
		for _, d := range fleet {
			if a := ask(t, harness.Dial(t, d.Addr), ann, "status", ""); strings.HasPrefix(a, "error") {
				return a
			}
		}
		return ""
	})
	for _, from := range []struct{ daemon, token string }{{"worker", ann}, {"worker", ""}, {"master", ann}, {"master", ""}, {"worker", read}, {"worker", p.workers}} {
		ask(t, harness.Dial(t, fleet[from.daemon].Addr), from.token, "pause", `{"targets":["mail"]}`)
		ask(t, harness.Dial(t, fleet[from.daemon].Addr), from.token, "continue", `{"targets":["mail"]}`)
	}
	var opened struct{ Cursor string }
	w := harness.Dial(t, fleet["worker"].Addr)
	decode(t, ask(t, w, ann, "journal-events", `{"kinds":["paused","refused"]}`), &opened)
	var page struct {
		Items []struct {
			Kind    string `json:"kind"`
			Payload struct {
				By string `json:"by"`
			} `json:"payload"`
		} `json:"items"`
	}
	said := ask(t, w, ann, "journal-next", fmt.Sprintf(`{"cursor":%q}`, opened.Cursor))
	decode(t, said, &page)
	var got []string
	for _, e := range page.Items {
		got = append(got, e.Kind+" by "+ports.ReplaceAllString(e.Payload.By, "PORT"))
	}
	want := []string{
		"paused by ann (token, 127.0.0.1:PORT)", "paused by here (localhost, 127.0.0.1:PORT)",
		"paused by ann (token, 127.0.0.1:PORT) via unverified master 127.0.0.1:PORT",
		"paused by here (localhost, 127.0.0.1:PORT) via unverified master 127.0.0.1:PORT",
		"refused by bob (token, 127.0.0.1:PORT)", "refused by bob (token, 127.0.0.1:PORT)",
		"refused by w1 (token, 127.0.0.1:PORT)", "refused by w1 (token, 127.0.0.1:PORT)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the journal says\n%s\nwant\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), said)
	}
	for name, d := range fleet {
		for who, token := range map[string]string{"ann": ann, "w1": p.workers} {
			if strings.Contains(d.Output(), token) {
				t.Errorf("the log of the %s has the token of %s", name, who)
			}
		}
	}
}

var ports = regexp.MustCompile(`\b[0-9]{4,5}\b`)

// A worker registers under its own name and for its own targets only.
func TestAWorkerIsWhoItSays(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	node := p.add("node-7", "worker", "mail,reports/*")
	master := harness.StartMaster(t, p.settings())
	for data, want := range map[string]string{
		`{"name":"node-7","targets":["mail","reports/a"]}`: `"ok"`,
		`{"name":"node-8","targets":["mail"]}`:             "error: node-7 may register under its own name only, not as node-8: rename the worker, or give it the token of its own line",
		`{"name":"node-7","targets":["mail","billing"]}`:   "error: node-7 may serve mail,reports/*, not billing",
		`{"name":"node-7","targets":["reports"]}`:          "error: node-7 may serve mail,reports/*, not reports",
	} {
		check.Equal(t, ask(t, harness.Dial(t, master.Addr), node, "register-worker", data), want, "%s", data)
	}
	// A worker whose instance another one knows stays registered.
	other := p.add("node-8", "worker", "mail")
	links := make(map[string]*harness.Wire)
	for _, w := range []struct{ name, token string }{{"node-7", node}, {"node-8", other}} {
		harness.Until(t, func() string {
			links[w.name] = harness.Dial(t, master.Addr)
			if said := ask(t, links[w.name], w.token, "register-worker", `{"name":"`+w.name+`","targets":["mail"],"instance":"one"}`); said != `"ok"` {
				return said
			}
			return ""
		})
	}
	if said := ask(t, links["node-7"], "", "poke", `{"targets":["mail"]}`); said != `"ok"` {
		t.Errorf("the first of two workers that say to be one: %s", said)
	}
	if said := ask(t, harness.Dial(t, master.Addr), node, "poke", `{"targets":["billing"]}`); said != `"ok"` {
		t.Errorf("a poke for rows that it has set back: %s", said)
	}
}

// A master that nobody has verified may ask what master_scope says, whoever it says that it asks for.
func TestAnUnverifiedMasterIsLimited(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "here admin * localhost")
	token := p.add("w1", "worker", "a")
	master := harness.StartMaster(t, p.settings())
	db := harness.NewDatabase(t)
	db.Worker(t, "w1", harness.Script(t, "true")+" {id}", map[string]int{"a": 1}).
		With(harness.MasterOf(master), harness.Settings{"master_scope": "submit", "password": token}).StartWorker(t)
	master.AwaitSaid(t, "worker registered")
	w := harness.Dial(t, master.Addr)
	db.Insert(t, 1, "a", "waiting")
	check.Equal(t, ask(t, w, "", "poke", `{"targets":["a"]}`), `"ok"`, "poke")
	db.AwaitCount(t, 1, "status = 'done'")
	if said := ask(t, w, "", "pause", ""); said != "error: worker 'w1': here may not ask for pause: that needs the scope admin, and it has submit" {
		t.Errorf("pause: %s", said)
	}
}

// A worker shows its own certificate to a master that asks for one: that is its credential, for its name and its
// targets only. One that was renewed, or came late, counts from the next call on.
func TestAWorkersCertificateIsItsCredential(t *testing.T) {
	t.Parallel()
	authority, folder := certtest.New(t), t.TempDir()
	p := newPeople(t, "node-7 worker mail cert:node-7.example.com", "w1 worker mail localhost")
	master := harness.StartMaster(t, p.settings(), harness.Settings{"tls_client_ca": authority.File}, offered(t, authority, t.TempDir(), "allow"))
	db := harness.NewDatabase(t)
	db.Insert(t, 1, "mail", "waiting")
	file, key := authority.Issue(t, folder, "node-8.example.com")
	node := func(db *harness.Database, name string, targets ...string) harness.Settings {
		slots := make(map[string]int)
		for _, target := range targets {
			slots[target] = 1
		}
		return db.Worker(t, name, harness.Script(t, "true")+" {id}", slots).With(harness.MasterOf(master), harness.Settings{
			"tls_cert": file, "tls_key": key, "master_tls": "verify", "master_tls_ca": authority.File, "master_reconnect_timeout": "100ms",
		})
	}
	worker := node(db, "node-7", "mail").StartWorker(t)
	worker.AwaitSaid(t, "w1 may register under its own name only, not as node-7") // the certificate has another name, so localhost counts
	authority.Issue(t, folder, "node-7.example.com", "127.0.0.1")
	master.AwaitSaid(t, "worker registered")
	foreign := node(harness.NewDatabase(t), "node-7", "mail", "billing").StartWorker(t)
	foreign.AwaitSaid(t, "node-7 may serve mail, not billing")
	other := node(db, "node-9", "mail").StartWorker(t)
	other.AwaitSaid(t, "node-7 may register under its own name only, not as node-9")
	for _, d := range []*harness.Daemon{foreign, other} {
		d.Signal(t, syscall.SIGTERM)
		d.ExitCode(t)
	}
	checked, _ := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobd"), "--config", node(db, "node-7", "mail").Write(t), "--check").CombinedOutput()
	check.Contains(t, string(checked), "takes this credential for a worker's", "--check: %s", checked)
	db.AwaitCount(t, 1, "status = 'done'")
	p.remove("node-7 ")
	master.AwaitSaid(t, "worker left")
	worker.AwaitSaid(t, "no connection to the master, trying again")
}

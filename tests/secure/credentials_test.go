package secure

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"jobd/net/cert/certtest"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A credential that is removed or expires has no link a second later: neither its clients', nor its workers'.
func TestARemovedCredentialHasNoLink(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	fleet := p.fleet("echo $1")
	ann := p.add("ann", "admin", "*")
	p.add("bob", "read", "*")
	p.add("eve", "read", "*")
	links := make(map[string]*harness.Wire)
	for name, token := range p.tokens {
		for _, d := range fleet {
			harness.Until(t, func() string {
				links[name+d.Addr] = harness.Dial(t, d.Addr)
				if a := ask(t, links[name+d.Addr], token, "status", ""); strings.HasPrefix(a, "error") {
					return a
				}
				return ""
			})
		}
	}
	for line := range p.lines {
		if strings.HasPrefix(line, "bob ") { // it expires soon
			p.lines[line] = strings.Fields(p.lines[line])[0] + " expires=" + time.Now().Add(2*time.Second).UTC().Format(time.RFC3339)
		}
	}
	p.remove("ann ")
	for _, d := range fleet {
		links["ann"+d.Addr].Closed(t)
		links["bob"+d.Addr].Closed(t)
		if said := ask(t, harness.Dial(t, d.Addr), ann, "status", ""); said != "error: invalid password" {
			t.Errorf("a removed token: %s", said)
		}
		if said := ask(t, links["eve"+d.Addr], p.tokens["eve"], "status", ""); strings.HasPrefix(said, "error") {
			t.Errorf("who stays: %s", said)
		}
	}
	// One of two credentials that a link has used: what the former has begun ends with it.
	both := p.add("former", "read", "*")
	for _, d := range fleet {
		harness.Until(t, func() string {
			links[d.Addr] = harness.Dial(t, d.Addr)
			if a := ask(t, links[d.Addr], both, "status", ""); strings.HasPrefix(a, "error") {
				return a
			}
			return ""
		})
		if said := ask(t, links[d.Addr], p.tokens["eve"], "status", ""); strings.HasPrefix(said, "error") {
			t.Error(said)
		}
	}
	p.remove("former ")
	for _, d := range fleet {
		links[d.Addr].Closed(t)
	}
	p.remove("w1 ")
	fleet["master"].AwaitSaid(t, "worker left")
}

// Of several credentials of a link the request's password or token decides, else the certificate, else where it
// comes from; a later request may bring another one. What a certificate is named beside its DNS names, and
// names that are like, count for nothing.
func TestOfSeveralCredentials(t *testing.T) {
	t.Parallel()
	const password = "the password of all of them"
	authority := certtest.New(t)
	p := newPeople(t, "node read * cert:client.example", "here status * localhost")
	ann := p.add("ann", "admin", "*")
	master := harness.StartMaster(t, p.settings(), harness.Settings{"password": password, "tls_client_ca": authority.File}, offered(t, authority, t.TempDir(), "allow"))
	dial := func(names ...string) *harness.Wire {
		t.Helper()
		config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
		config.RootCAs.AppendCertsFromPEM(must.Get(os.ReadFile(authority.File))(t))
		if names != nil {
			config.Certificates = []tls.Certificate{must.Get(tls.LoadX509KeyPair(authority.Issue(t, t.TempDir(), names...)))(t)}
		}
		return harness.Wrap(t, must.Get(tls.Dial("tcp", master.Addr, config))(t))
	}
	const isStatus, isRead, isAdmin = "status", "read", "admin"
	of := func(w *harness.Wire, secret string) string {
		t.Helper()
		for _, scope := range []struct{ scope, request string }{{isAdmin, "pause"}, {isRead, "running"}, {isStatus, "status"}} {
			said := ask(t, w, secret, scope.request, `{"targets":["a"]}`)
			if !strings.HasPrefix(said, "error: ") {
				return scope.scope
			}
			if !strings.Contains(said, "may not ask for") {
				return said
			}
			secret = ""
		}
		return "nothing"
	}
	certified, plain := dial("client.example"), harness.Dial(t, master.Addr)
	for _, test := range []struct {
		name, secret, want string
		link               *harness.Wire
	}{
		{"a certificate", "", isRead, certified},
		{"a token beside it", ann, isAdmin, certified},
		{"the token once more", "", isAdmin, certified},
		{"no certificate", "", isStatus, dial()},
		{"a certificate of another name", "", isStatus, dial("other.example")},
		{"of a name below it", "", isStatus, dial("a.client.example")},
		{"of a wildcard", "", isStatus, dial("*.example")},
		{"of the second name", "", isRead, dial("other.example", "client.example")},
		{"this host", "", isStatus, plain},
		{"the password", password, isAdmin, plain},
		{"a wrong one", "wrong", "error: invalid password", plain},
		{"a token that is none", ann[:len(ann)-1] + "x", "error: invalid password", harness.Dial(t, master.Addr)},
		{"a certificate and a wrong password", "wrong", "error: invalid password", dial("client.example")},
	} {
		if got := of(test.link, test.secret); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	// The certificate's line goes, and with it its links.
	again := dial("client.example")
	if got := of(again, ""); got != isRead {
		t.Fatal(got)
	}
	p.remove("node ")
	again.Closed(t)
}

// Neither a token nor a password stands anywhere but in the configuration: not in arguments, environments of
// jobs, logs, errors, rows, numbers, the journal and its export.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	node, ann := p.add("w1", "worker", "mail"), p.add("ann", "admin", "*")
	secrets := []string{node, ann, "a password of twenty-four"}
	web := harness.FreePort(t)
	master := harness.StartMaster(t, p.settings(), harness.Settings{"password": secrets[2], "log_level_console": "debug"})
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "w1", harness.Script(t, `env; cat /proc/$PPID/environ /proc/$PPID/cmdline /proc/*/cmdline; echo "$0 $*" >&2; exit 1`)+" {id}", map[string]int{"mail": 1}).
		With(harness.MasterOf(master), harness.Settings{"password": node, "principals_file": p.path, "log_level_console": "debug", "http_listen": "127.0.0.1:" + web})
	worker := settings.StartWorker(t)
	master.AwaitSaid(t, "worker registered")
	db.Insert(t, 1, "mail", "waiting")
	var said strings.Builder
	for _, d := range []*harness.Daemon{worker, master} {
		for _, secret := range secrets {
			for _, request := range []string{"poke", "poll", "status", "pause", "continue", "explain", "register-worker", secret} {
				w := harness.Dial(t, d.Addr)
				w.Send(t, fmt.Sprintf(`[0,{"no":7,"type":%q,"data":{"targets":["mail",%q],"ids":[1],"name":"x"},"password":%q}]`, request, secret[:5], secret))
				response, _ := w.Answer(t)
				if request != secret { // which it repeats
					said.WriteString(response.Error)
					said.Write(response.Data)
				}
			}
		}
	}
	row := db.AwaitDone(t, 1)
	rows := harness.Text(row.Stdout) + harness.Text(row.Stderr)
	numbers := must.Get(http.Get("http://127.0.0.1:" + web + "/metrics"))(t)
	must.Get(io.Copy(&said, numbers.Body))(t)
	must.Do(t, numbers.Body.Close())
	found := map[string]string{"answers and numbers": said.String(), "the row": rows, "the worker's log": worker.Output(), "the master's log": master.Output()}
	must.Do(t, filepath.WalkDir(settings["journal_dir"], func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			found[path] = string(must.Get(os.ReadFile(path))(t))
		}
		return err
	}))
	exported, _ := jobctl(t, worker, "journal", "log", "--journal", settings["journal_dir"], "--output", "json")
	found["the journal's log"] = exported
	for where, text := range found {
		for i, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("secret %d stands in %s", i, where)
			}
		}
	}
	check, _ := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobd"), "--config", worker.Config, "--check").CombinedOutput()
	if !strings.Contains(string(check), "answers, and takes this credential for a worker's") {
		t.Errorf("--check does not know the master:\n%s", check)
	}
	if !strings.Contains(rows, "PATH=") || !strings.Contains(exported, "done") {
		t.Error("the job has not told its environment, or the journal not its end")
	}
}

// rewrite puts other settings into the file that a daemon was started with, in one step.
func rewrite(t *testing.T, config string, s harness.Settings) {
	t.Helper()
	must.Do(t, os.WriteFile(config+".new", []byte(s.String()), 0o600))
	must.Do(t, os.Rename(config+".new", config))
}

// tryPoke asks for a poke over a link, made anew where there is none, and gives the answer's frame.
func tryPoke(t *testing.T, link **harness.Wire, addr, token string, no int64) (frame string, err error) {
	if *link == nil {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return "", err
		}
		*link = harness.Wrap(t, conn)
	}
	frame = fmt.Sprintf(`[0,{"no":%d,"type":"poke","data":{"targets":["a"]},"password":%q}]`, no, token)
	if err = (*link).Write(append([]byte(frame), harness.EOT)); err != nil {
		return "", err
	}
	for err == nil && !strings.HasPrefix(frame, "[1,") { // pings may come before
		frame, err = (*link).Receive(harness.Patience)
	}
	return frame, err
}

// The passwords of the database, of the master and of the worker change while jobs come all the time, those of
// the database with its links killed. Who asks with a token notices nothing but links that end, and masters that
// stop: no other request is refused, no job is lost, and none runs twice.
func TestPasswordsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ann := p.add("ann", "admin", "*")
	db := harness.NewDatabase(t)
	folder, password := t.TempDir(), "the first of four passwords"
	masterSettings := p.settings().With(harness.Settings{
		"host": "127.0.0.1", "port": harness.FreePort(t), "log_level_console": "info", "password": password,
	})
	startMaster := func() *harness.Daemon {
		return harness.Launch(t, "jobd-master", masterSettings.Write(t), masterSettings.Addr()).Ready(t)
	}
	master := startMaster()
	settings := db.Worker(t, "w1", harness.Script(t, `echo x >> "`+folder+`/$1"; echo job $1`)+" {id}", map[string]int{"a": 2}).
		With(harness.MasterOf(master), p.settings(), harness.Settings{"password": password})
	worker := settings.StartWorker(t)
	harness.AwaitWorkers(t, master, ann, 1)

	// The application: a row, a poke, the next one, no more of them than get done. A poke whose link ends, or which
	// meets a master that stops, is repeated; one that is refused fails.
	var inserted, poked atomic.Int64
	over := make(chan struct{})
	var application sync.WaitGroup
	application.Go(func() {
		var link *harness.Wire
		arrivals := time.NewTicker(20 * time.Millisecond)
		defer arrivals.Stop()
		for {
			select {
			case <-over:
				return
			case <-arrivals.C:
			}
			var open int
			if err := db.Admin.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM jobs WHERE status <> 'done'").Scan(&open); err != nil {
				t.Error(err)
				return
			}
			if open > 20 {
				continue
			}
			if _, err := db.Admin.ExecContext(t.Context(),
				"INSERT INTO jobs (id, target, time_created, status) VALUES (?, 'a', UNIX_TIMESTAMP(), 'waiting')", inserted.Load()+1); err != nil {
				t.Error(err)
				return
			}
			inserted.Add(1)
			for {
				said, err := tryPoke(t, &link, master.Addr, ann, inserted.Load())
				if err == nil && !strings.Contains(said, `"error":`) {
					break
				}
				if err == nil && !strings.Contains(said, `"error":"shutting down"`) {
					t.Errorf("poke: %s", said)
					return
				}
				link = nil // it ended: the next one asks again
				select {
				case <-over:
					return
				default:
				}
			}
			poked.Add(1)
		}
	})
	more := func(what string) { // the application goes on, and its jobs end
		t.Helper()
		before := poked.Load() + 20
		harness.Until(t, func() string {
			if n := int64(db.Count(t, "status = 'done'")); n < before || poked.Load() < before {
				return fmt.Sprintf("%s: %d pokes, %d jobs done, not %d", what, poked.Load(), n, before)
			}
			return ""
		})
	}
	restart := func() {
		t.Helper()
		rewrite(t, worker.Config, settings)
		host, port, _ := strings.Cut(worker.Addr, ":")
		cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), "--config=", "--host", host, "--port", port, "restart")
		cmd.Env = append(os.Environ(), "JOBCTL_PASSWORD="+ann)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("restart: %v: %s\n%s", err, out, worker.Output())
		}
	}
	more("before")

	// The database's: the server refuses the former one, and ends the links that know it.
	for _, host := range []string{"%", "localhost"} {
		db.Exec(t, fmt.Sprintf("ALTER USER '%s'@'%s' IDENTIFIED BY 'another one'", db.Account.User, host))
	}
	db.Exec(t, "KILL USER '"+db.Account.User+"'")
	settings["mysql_password"] = "another one"
	restart()
	more("another password of the database")

	// The master's, and the worker's with it, twice.
	for n := range 2 {
		password = fmt.Sprintf("the password number %d of four", n)
		masterSettings["password"], settings["password"] = password, password
		master.Signal(t, syscall.SIGTERM)
		master.ExitCode(t)
		master = startMaster()
		restart()
		harness.AwaitWorkers(t, master, ann, 1)
		more("another password of the master")
	}
	close(over)
	application.Wait()
	if said := ask(t, harness.Dial(t, worker.Addr), ann, "poll", `{"targets":["a"]}`); strings.HasPrefix(said, "error") {
		t.Error(said)
	}
	count := int(inserted.Load())
	db.AwaitCount(t, count, "status = 'done' AND result = 'ok' AND stdout = CONCAT('job ', id, '\n')")
	for id := 1; id <= count; id++ {
		if ran := must.Get(os.ReadFile(filepath.Join(folder, fmt.Sprint(id))))(t); string(ran) != "x\n" {
			t.Errorf("job %d ran %q", id, ran)
		}
	}
	t.Logf("%d jobs, %d pokes", count, poked.Load())
}

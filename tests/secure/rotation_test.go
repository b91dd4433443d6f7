package secure

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

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

	// The application: a row, a poke, the next one. A poke whose link ends, or which meets a master that stops, is
	// repeated; one that is refused fails.
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

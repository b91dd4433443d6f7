package operator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// standing is what a worker tells of the parts that it needs.
type standing struct {
	Reachable bool
	Since     time.Time
	Error     string
	PID       int
}

// told is what a worker tells of itself.
type told struct {
	Database, Runner standing
	Journal          struct {
		Events, Mirrored int
		Full             string
		FullSince        time.Time
	}
	Targets map[string]struct {
		Running, Prefetched, EndedLastMinute, FailedLastMinute int
		PausedSince                                            int64
		PausedBy                                               string
	}
	Masters []struct {
		Registered bool
		Since      time.Time
	}
}

// status is what a worker answers.
func status(t *testing.T, d *harness.Daemon) (s told) {
	t.Helper()
	harness.Dial(t, d.Addr).Ask(t, "status", nil).Decode(t, &s)
	return s
}

// shows waits until a command prints a text.
func shows(t *testing.T, d *harness.Daemon, text string, args ...string) {
	t.Helper()
	harness.Until(t, func() string {
		got := jobctl(t, d, args...)
		if strings.Contains(got.stdout, text) {
			return ""
		}
		return fmt.Sprintf("%q is missing in %+v", text, got)
	})
}

// An outage is told with its beginning and its reason, and its end; a worker that has nothing to do
// notices it, too. What waits can't be counted then, and nobody waits for that.
func TestStatusFollowsTheDatabase(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	proxy := must.Get(linkproxy.Start(db.Addr))(t)
	t.Cleanup(func() { proxy.Close() })
	worker := db.Worker(t, "node-1", "/bin/true {id}", map[string]int{"a": 2}).
		With(harness.Settings{"mysql_port": strconv.Itoa(proxy.Port())}).StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	jobctl(t, worker, "poll")
	db.AwaitDone(t, 1)
	before := status(t, worker)
	if !before.Database.Reachable || before.Database.Since.IsZero() {
		t.Errorf("at first: %+v", before.Database)
	}
	shows(t, worker, "a       0/2    0           0        -       no", "status")

	proxy.Refuse(true)
	proxy.Cut()
	shows(t, worker, "database: away since ", "status") // by the connection that holds its name: nobody asks for anything
	away := status(t, worker)
	if away.Database.Reachable || !away.Database.Since.After(before.Database.Since) || away.Database.Error == "" {
		t.Errorf("while it is away: %+v", away.Database)
	}
	got := jobctl(t, worker, "queue")
	if want := "jobctl: " + worker.Addr + ": the database is away since "; got.code != 6 || !strings.HasPrefix(got.stderr, want) || !strings.Contains(got.stdout, "a       ?        ?       0        2  ") {
		t.Errorf("queue: %+v", got)
	}

	proxy.Refuse(false)
	shows(t, worker, "database: reachable since ", "status")
	if back := status(t, worker); !back.Database.Since.After(away.Database.Since) || back.Database.Error != "" {
		t.Errorf("when it is back: %+v", back.Database)
	}
}

// Status without counts asks the database nothing, however often; the server's own counter tells.
func TestStatusCostsTheDatabaseNothing(t *testing.T) {
	t.Parallel()
	server := must.Get(dbserver.Start(context.Background(), dbserver.Options{}))(t)
	t.Cleanup(func() { server.Close() })
	db := harness.NewDatabaseOn(t, server)
	worker := db.Worker(t, "node-1", "/bin/true {id}", map[string]int{"a": 2}).StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	jobctl(t, worker, "poll")
	db.AwaitDone(t, 1)
	db.Admin.SetMaxOpenConns(1)
	questions := func() (n int) {
		var name string
		must.Do(t, db.Admin.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n))
		return n
	}
	harness.Until(t, func() string { // until the worker rests
		if before := questions(); questions() != before+1 {
			return "somebody else asks the server"
		}
		return ""
	})
	client := harness.Dial(t, worker.Addr)
	before := questions()
	for range 200 {
		client.Ask(t, "status", nil).Decode(t, new(told))
	}
	if asked := questions() - before - 1; asked > 0 {
		t.Errorf("200 times status asks the server %d times", asked)
	}
	before = questions()
	client.Ask(t, "waiting", nil).Decode(t, new(any))
	if asked := questions() - before - 1; asked != 1 {
		t.Errorf("the counts of one target ask the server %d times", asked)
	}
}

func TestStatusTellsOfAFullDisk(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	dir := smallDisk(t)
	worker := db.Worker(t, "node-1", "/bin/true {id}", map[string]int{"a": 1}).With(harness.Settings{"journal_dir": dir}).StartWorker(t)
	if s := status(t, worker); s.Journal.Full != "" || !s.Journal.FullSince.IsZero() {
		t.Errorf("at first: %+v", s.Journal)
	}
	free := fill(t, dir)
	full := status(t, worker).Journal // nothing had to be journalled for that
	if !strings.Contains(full.Full, "are free") || full.FullSince.IsZero() {
		t.Errorf("while it is full: %+v", full)
	}
	db.Insert(t, 1, "a", "waiting")
	jobctl(t, worker, "poll")
	shows(t, worker, ": journal "+dir, "status")
	if got := jobctl(t, worker, "status"); !strings.Contains(got.stdout, "\njournal's disk: full since ") || !strings.Contains(got.stdout, "\na       0/1    0           1  ") {
		t.Errorf("%+v", got)
	}
	if again := status(t, worker).Journal; again.FullSince != full.FullSince {
		t.Errorf("it is full since %v, and then since %v", full.FullSince, again.FullSince)
	}
	free()
	db.AwaitDone(t, 1)
	if s := status(t, worker).Journal; s.Full != "" {
		t.Errorf("with room again: %+v", s)
	}
}

func TestStatusTellsOfARunnerThatWasKilled(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	worker := db.Worker(t, "node-1", "/bin/true {id}", map[string]int{"a": 1}).StartWorker(t)
	before := status(t, worker).Runner
	if pid := worker.Runner(t); before.PID != pid || !before.Reachable || before.Since.IsZero() {
		t.Fatalf("%+v, want process %d", before, pid)
	}
	must.Do(t, syscall.Kill(before.PID, syscall.SIGKILL))
	harness.Until(t, func() string {
		after := status(t, worker).Runner
		if after.Reachable && after.PID != before.PID && after.PID > 0 && after.Since.After(before.Since) {
			return ""
		}
		return fmt.Sprintf("%+v", after)
	})
	shows(t, worker, fmt.Sprintf("runner: process %d, connected since ", status(t, worker).Runner.PID), "status")
}

// Who paused a target is told as the journal has it, also where that came through a master.
func TestStatusTellsWhoPaused(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t)
	worker := db.Worker(t, "node-1", "/bin/true {id}", map[string]int{"a": 1, "b": 1}).With(harness.MasterOf(master)).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 1)
	if got := jobctl(t, master, "--master", "pause", "a"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	db.InsertMany(t, 10_050, "a", "waiting")
	jobctl(t, worker, "poll")
	a := status(t, worker).Targets["a"]
	if !strings.HasPrefix(a.PausedBy, "127.0.0.1:") || !strings.HasSuffix(a.PausedBy, " via master "+master.Addr) || a.PausedSince == 0 {
		t.Errorf("%+v, want who paused it via master %s", a, master.Addr)
	}
	got := jobctl(t, worker, "status")
	if !strings.Contains(got.stdout, "\na       0/1    0           10000+  ") || !strings.Contains(got.stdout, "\ntarget a is paused since ") || !strings.Contains(got.stdout, " by "+a.PausedBy+"\n") {
		t.Errorf("%+v", got)
	}
	shows(t, master, "a       1        0/1    0           10000+   ", "--master", "status")
	jobctl(t, worker, "restart") // the configuration says nothing of a pause
	if a := status(t, worker).Targets["a"]; a.PausedSince != 0 || a.PausedBy != "" {
		t.Errorf("after a restart: %+v", a)
	}
}

// A master adds up three workers, one of which hangs and one of which is the original, and names
// targets that were poked and are served by nobody.
func TestStatusOfAFleet(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t)
	start := func(name string) *harness.Daemon {
		return db.Worker(t, name, "/bin/true {id}", map[string]int{"shared": 2, name: 1}).With(harness.MasterOf(master)).StartWorker(t)
	}
	start("node-1")
	hangs := start("node-2")
	harness.AwaitWorkers(t, master, "", 2)
	original(t, master, "node-1")
	harness.AwaitWorkers(t, master, "", 3)
	jobctl(t, master, "--master", "pause", "shared")
	db.InsertMany(t, 3, "shared", "waiting")
	db.Insert(t, 101, "nobody", "waiting")
	db.Insert(t, 102, "nobody", "waiting")
	jobctl(t, master, "--master", "poke", "nobody")
	hangs.Signal(t, syscall.SIGSTOP)
	t.Cleanup(func() { hangs.Signal(t, syscall.SIGCONT) })
	got := jobctl(t, master, "--master", "status")
	for _, want := range []string{
		"\nworker node-2 does not answer: no answer within 5s\n",
		"\nworker node-1 can't tell more, because it is an older jobd, or the original\n",
		"\n3 workers, 4 targets; 0 of 15 slots in use, 0 prefetched\n",
		"\nshared  1        0/2    0           3  ",
		"\na       1        ?/10   ?           0        -       no\n",
		"\ntarget nobody was poked and is served by nobody, since ", "; 2 rows wait\n",
	} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q is missing in\n%s", want, got.stdout)
		}
	}
	if got.code != 1 || got.stderr != "jobctl: worker 'node-2': no answer within 5s\n" {
		t.Errorf("exit code %d, %s", got.code, got.stderr)
	}
	got = jobctl(t, master, "--master", "queue", "shared", "--output=json")
	var answer struct {
		Targets []struct {
			Target                         string
			Waiting, Running, Slots, Ended *int
		}
	}
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil || got.code != 1 || len(answer.Targets) != 1 || *answer.Targets[0].Waiting != 3 || *answer.Targets[0].Slots != 2 {
		t.Errorf("%v: %+v", err, got)
	}
}

// original registers a worker that answers as the original did when it was recorded, under another
// name than node-1.
func original(t *testing.T, master *harness.Daemon, name string) {
	t.Helper()
	file := must.Get(os.Open(filepath.Join(harness.Top(), "testdata", "conformance", "worker-master.jsonl")))(t)
	defer file.Close()
	var registration, status json.RawMessage
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			From  string
			Frame []json.RawMessage
		}
		var body struct {
			Type string
			Data json.RawMessage
		}
		must.Do(t, json.Unmarshal(lines.Bytes(), &line))
		if len(line.Frame) < 2 || json.Unmarshal(line.Frame[1], &body) != nil || line.From != "worker" {
			continue
		}
		switch {
		case body.Type == "register-worker":
			registration = body.Data
		case strings.Contains(string(body.Data), "jobPromisesCount"):
			status = body.Data
		}
	}
	registration = bytes.ReplaceAll(registration, []byte(`"node-1"`), fmt.Appendf(nil, "%q", name))
	wire := harness.Dial(t, master.Addr)
	wire.Ask(t, "register-worker", registration).Decode(t, new(string))
	go func() {
		for {
			frame, err := wire.Receive(harness.Patience)
			if err != nil {
				return
			}
			var request struct {
				No   int
				Type string
			}
			parts := []any{new(int), &request}
			answer := "[3]"
			if frame != "[2]" {
				_ = json.Unmarshal([]byte(frame), &parts)
				answer = fmt.Sprintf(`[1,{"no":%d,"data":%s}]`, request.No, status)
				if request.Type != "status" {
					answer = fmt.Sprintf(`[1,{"no":%d,"error":"unknown request type: '%s'"}]`, request.No, request.Type)
				}
			}
			if wire.Write(append([]byte(answer), harness.EOT)) != nil {
				return
			}
		}
	}()
}

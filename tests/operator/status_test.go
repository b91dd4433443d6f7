package operator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/dbserver"
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
	link := harness.NewLink(t, db.Addr)
	worker := db.Worker(t, "node-1", "/bin/true {id}", map[string]int{"a": 2}).
		With(link.ToDatabase()).StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	jobctl(t, worker, "poll")
	db.AwaitDone(t, 1)
	before := status(t, worker)
	if !before.Database.Reachable || before.Database.Since.IsZero() {
		t.Errorf("at first: %+v", before.Database)
	}
	shows(t, worker, "a       0/2    0           0        -       no", "status")

	link.Away()
	shows(t, worker, "database: away since ", "status") // by the connection that holds its name: nobody asks for anything
	away := status(t, worker)
	if away.Database.Reachable || !away.Database.Since.After(before.Database.Since) || away.Database.Error == "" {
		t.Errorf("while it is away: %+v", away.Database)
	}
	got := jobctl(t, worker, "queue")
	if want := "jobctl: " + worker.Addr + ": the database is away since "; got.code != 6 || !strings.HasPrefix(got.stderr, want) || !strings.Contains(got.stdout, "a       ?        ?       0        2  ") {
		t.Errorf("queue: %+v", got)
	}

	link.Back()
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

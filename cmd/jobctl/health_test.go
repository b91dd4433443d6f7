package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jobnet "jobd/net"
	"jobd/store/storetest/must"
)

// healthAnswer is what a worker says of itself; more are members that come last, and count.
func healthAnswer(name, more string) string {
	return fmt.Sprintf(`{"targets": {"mail": {"concurrency": 5, "running": 4, "endedLastMinute": 20, "failedLastMinute": 3}},
  "jobPromisesCount": 0, "memoryUsage": {}, "name": %q, "version": "1.4.0", "pid": 4711, "startedAt": 1794898800000,
  "journal": {"events": 20, "mirrored": 15}, "database": {"reachable": true}, "runner": {"reachable": true}%s}`, name, more)
}

// jobctlNow is what the clock of these tests says (see jobctl.run).
var jobctlNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const waitingRows = `{"targets": {"mail": {"count": 7, "oldest": %d}}}`

func healthDaemon(t *testing.T, status, waiting string) *daemon {
	t.Helper()
	return startDaemon(t, "", map[string]any{"status": json.RawMessage(status), "waiting": json.RawMessage(waiting)})
}

func TestHealthOfAWorker(t *testing.T) {
	t.Parallel()
	now := jobctlNow.Unix()
	recent, old := fmt.Sprintf(waitingRows, now-60), fmt.Sprintf(waitingRows, now-1200)
	for name, test := range map[string]struct {
		more, waiting, args string
		code                int
		want                string
	}{
		"well": {"", recent, "", 0, "JOBD OK - worker node-1: 4 of 5 slots in use, 7 rows wait"},
		"away": {
			`,"database": {"reachable": false}, "notReady": [{"what": "database", "why": "no route | to\nhost"}]`, recent, "", 2,
			"JOBD CRITICAL - worker node-1: the database is away: no route / to",
		},
		"a reason of an older worker": {`,"database": {"reachable": false, "error": "it is off"}`, recent, "", 2, "JOBD CRITICAL - worker node-1: the database is away: it is off"},
		"old":                         {"", old, "", 1, "JOBD WARNING - worker node-1: the oldest row of target mail waits for 20m0s; 4 of 5"},
		"max age":                     {"", old, " --max-age 15m", 2, "JOBD CRITICAL - worker node-1: the oldest row of target mail waits for 20m0s"},
		"max age, younger":            {"", old, " --max-age 30m", 0, "JOBD OK - "},
		"max lag": {
			`,"journal": {"events": 9, "mirrored": 4, "unshownSince": "2026-11-20T11:50:00Z"}`, recent, " --max-lag 5m", 2,
			"JOBD CRITICAL - worker node-1: the table is 10m0s behind the journal",
		},
		"aside": {
			`,"asideCount": 2, "aside": [{"job": 1, "target": "mail", "reason": "locked", "since": "2026-11-01T00:00:00Z"}]`, recent, "", 1,
			"JOBD WARNING - worker node-1: 2 rows quarantined, the first for",
		},
		"no master": {`,"masters": [{"address": "10.0.0.1:7081", "error": "refused"}]`, recent, "", 1, "JOBD WARNING - worker node-1: it is not registered with the master 10.0.0.1:7081: refused"},
		"uncounted": {
			"", `{"targets": {"mail": {"error": "too slow"}}}`, "", 3,
			"JOBD UNKNOWN - worker node-1: the number of waiting rows is not known: rows of target mail: too slow; 4 of 5 slots in use, how many rows wait is not known",
		},
		"away, uncounted": {
			`,"database": {"reachable": false, "error": "it is off"}`, `{"targets": {"mail": {"error": "it is off"}}}`, "", 2,
			"JOBD CRITICAL - worker node-1: the database is away: it is off; 4 of 5 slots in use, how many rows wait is not known",
		},
		"paused": {
			`,"targets": {"mail": {"concurrency": 5, "paused": true}}`, old, "", 1,
			"JOBD WARNING - worker node-1: the oldest row of target mail, which is paused, waits for 20m0s; 0 of 5",
		},
		"a configuration with a mistake": {
			`,"configRefusedSince": "2026-11-20T11:59:00Z"`, recent, "", 1,
			"JOBD WARNING - worker node-1: its configuration has had a mistake for 1m0s, and the old one stays in force (jobctl reload shows the line); 4 of 5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := healthDaemon(t, healthAnswer("node-1", test.more), test.waiting)
			got := jobctl{}.run(t, strings.Fields("--port "+d.port+" health"+test.args)...)
			if got.code != test.code || !strings.HasPrefix(got.out, test.want) || strings.Count(got.out, "\n") != 1 || strings.Contains(got.out, "|") || got.err != "" {
				t.Errorf("exit code %d, want %d; stderr %q\n got %s\nwant %s", got.code, test.code, got.err, got.out, test.want)
			}
		})
	}
}

func TestHealthOfAMaster(t *testing.T) {
	t.Parallel()
	rows := fmt.Sprintf(waitingRows, jobctlNow.Unix()-60)
	worker := func(name, rest string) string {
		return fmt.Sprintf(`{"remoteAddr": "10.0.0.2", "remotePort": 1, "targets": ["mail"], "name": %q, %s}`, name, rest)
	}
	well, away := worker("one", `"workerStatus": `+healthAnswer("one", "")), worker("two", `"workerStatusError": "no answer"`)
	for name, test := range map[string]struct {
		workers, rest, args string
		code                int
		want                string
	}{
		"well":           {well, "", "", 0, "JOBD OK - master at 127.0.0.1:%s: 1 worker, 4 of 5 slots in use, 7 rows wait"},
		"none":           {"", "", "", 2, "JOBD CRITICAL - master at 127.0.0.1:%s: 0 workers registered"},
		"one is silent":  {well + "," + away, "", "", 1, "JOBD WARNING - master at 127.0.0.1:%s: worker two: no answer"},
		"all are silent": {away, "", "", 2, "JOBD CRITICAL - master at 127.0.0.1:%s: worker two: no answer"},
		"the master refuses changes": {
			well, `,"troubles": [{"what": "journal", "why": "no space\nleft"}]`, "", 1,
			"JOBD WARNING - master at 127.0.0.1:%s: the master refuses changes: no space / left; 1 worker, 4 of 5 slots in use, 7 rows wait",
		},
		"a worker is down": {
			well, fmt.Sprintf(`,"down": [{"name": "w2", "targets": ["mail"], "since": %d}]`, jobctlNow.UnixMilli()-60_000), "", 1,
			"JOBD WARNING - master at 127.0.0.1:%s: worker w2 down for 1m0s; 1 worker, 4 of 5 slots in use, 7 rows wait",
		},
		"two troubles": {
			well, fmt.Sprintf(`,"down": [{"name": "w2", "since": %d}, {"name": "w3", "since": %[1]d}]`, jobctlNow.UnixMilli()-60_000), "", 1,
			"JOBD WARNING - master at 127.0.0.1:%s: worker w2 down for 1m0s; worker w3 down for 1m0s; 1 worker, 4 of 5 slots in use, 7 rows wait",
		},
		"unserved, and not poked": {
			strings.ReplaceAll(well, `"mail"`, `"print"`), "", " --max-age 30s", 2,
			"JOBD CRITICAL - master at 127.0.0.1:%s: the oldest row of target mail, which no worker serves, waits for 1m",
		},
		"unserved": {
			well, fmt.Sprintf(`,"unserved": [{"target": "nobody", "since": %d}], "unservedCount": 1`, jobctlNow.UnixMilli()-60_000), "", 1,
			"JOBD WARNING - master at 127.0.0.1:%s: target nobody was poked, and no worker serves it for 1m",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDaemon(t, "", map[string]any{
				"status":  json.RawMessage(`{"workers": [` + test.workers + `], "memoryUsage": {}` + test.rest + `}`),
				"waiting": json.RawMessage(`{"workers": [{"name": "one", "address": "10.0.0.2:1", "data": ` + rows + `}]}`),
			})
			got := jobctl{}.run(t, strings.Fields("--master --port "+d.port+" health"+test.args)...)
			if want := fmt.Sprintf(test.want, d.port); got.code != test.code || !strings.HasPrefix(got.out, want) {
				t.Errorf("exit code %d, want %d; stderr %q\n got %s\nwant %s", got.code, test.code, got.err, got.out, want)
			}
		})
	}
}

// Who gets no answer is told what that means: nobody there is critical, and a check that was asked
// wrongly knows nothing.
func TestHealthWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	refusing := startDaemon(t, "", map[string]any{"status": jobnet.Refusal("not today")})
	guarded := startDaemon(t, "secret", map[string]any{"status": json.RawMessage(healthAnswer("node-1", ""))})
	for name, test := range map[string]struct {
		args string
		code int
		want string // on stdout; "": the error is on stderr
	}{
		"nobody":           {"--port 1 health", 2, "JOBD CRITICAL - 127.0.0.1:1: no connection to 127.0.0.1:1"},
		"a refusal":        {"--port " + refusing.port + " health", 3, "JOBD UNKNOWN - 127.0.0.1:" + refusing.port + ": not today"},
		"no password":      {"--port " + guarded.port + " health", 3, "JOBD UNKNOWN - 127.0.0.1:" + guarded.port + ": a password or token is needed"},
		"a wrong limit":    {"health --max-age soon", 3, ""},
		"a value's name":   {"--log-level=status health --max-age soon", 3, ""},
		"a wrong flag":     {"health --nonsense", 3, ""},
		"another's flag":   {"health --watch", 3, ""},
		"a wrong key":      {"--port nonsense health", 3, ""},
		"an argument":      {"health now", 3, ""},
		"another command":  {"status --nonsense", 2, ""},
		"what is no state": {"status health --nonsense", 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := jobctl{}.run(t, strings.Fields(test.args)...)
			if got.code != test.code || !strings.HasPrefix(got.out, test.want) || (test.want == "") != (got.out == "") || (test.want == "") == (got.err == "") {
				t.Errorf("exit code %d, want %d: %q, stderr %q", got.code, test.code, got.out, got.err)
			}
		})
	}
}

func TestHealthForPrograms(t *testing.T) {
	t.Parallel()
	d := healthDaemon(t, healthAnswer("node-1", ""), fmt.Sprintf(waitingRows, jobctlNow.Unix()-1200))
	got := jobctl{}.run(t, "--port", d.port, "--output", "json", "health")
	var told struct {
		State    string
		Code     int
		Problems []string
	}
	if err := json.Unmarshal([]byte(got.out), &told); err != nil || got.code != 1 || told.Code != 1 || told.State != "warning" ||
		len(told.Problems) != 1 {
		t.Errorf("exit code %d: %s, %v", got.code, got.out, err)
	}
}

// standingAnswer is what a worker of this version says, with so many jobs of target mail running.
func standingAnswer(name string, running int) string {
	return fmt.Sprintf(`{"targets": {
  "mail": {"paused": false, "concurrency": 5, "length": 6, "why": "", "running": %d, "prefetched": 2, "startedLastMinute": 30, "endedLastMinute": 20, "failedLastMinute": 1},
  "a/long:name": {"paused": true, "concurrency": 10, "length": 0, "running": 0, "prefetched": 0, "pausedSince": 1795169391000, "pausedBy": "10.0.0.5:4711 via master 10.0.0.1:7081"}},
  "jobPromisesCount": 3, "memoryUsage": {"rss": 23068672}, "name": %q, "version": "1.4.0", "commit": "2f1d9c0", "commitDate": "2026-11-01T09:30:00Z", "pid": 4711, "startedAt": 1794898800000,
  "journal": {"events": 12345, "mirrored": 12340, "bytes": 6815744, "segments": 2},
  "server": "6f1c-uuid", "mark": "k3f9",
  "database": {"reachable": true, "since": "2026-11-20T10:00:05Z"},
  "runner": {"reachable": true, "since": "2026-11-17T07:00:00Z", "pid": 4712},
  "masters": [{"address": "10.0.0.1:7081", "registered": true, "since": "2026-11-20T10:00:05Z"}]}`, running, name)
}

const standingRows = `{"targets": {"mail": {"count": 10000, "more": true, "oldest": 1795165200}, "a/long:name": {"count": 0}}}`

func standingWorker(t *testing.T) *daemon {
	t.Helper()
	return startDaemon(t, "", map[string]any{"status": json.RawMessage(standingAnswer("node-1", 4)), "waiting": json.RawMessage(standingRows)})
}

func TestStatusOfAWorkerIsOnePage(t *testing.T) {
	t.Parallel()
	worker := standingWorker(t)
	const want = `worker node-1, version 1.4.0, process 4711
up: 3d5h, since 2026-11-17 07:00:00
built of: commit 2f1d9c0, of 2026-11-01T09:30:00Z
database: reachable since 10:00:05
database server: 6f1c-uuid
worker id in its claims: k3f9
journal: 12,345 events, of which the table does not show 5; 6.5 MiB in 2 segments
runner: process 4712, connected since 2026-11-17 07:00:00
launcher: no fault is known
master 10.0.0.1:7081: registered since 10:00:05
manual jobs that a client waits for: 3
resident memory: 22 MiB

TARGET      | SLOTS | PREFETCHED | WAITING | OLDEST | PAUSED
------------+-------+------------+---------+--------+----------
a/long:name | 0/10  | 0          | 0       |        | for 1h50m
mail        | 4/5   | 2          | 10000+  | 3h0m   | no

target a/long:name is paused since 10:09:51 by 10.0.0.5:4711 via master 10.0.0.1:7081

the oldest row of target mail waits for 3h0m
`
	jobctl{terminal: true}.expect(t, worker, output{out: want}, "status")
	if got, want := strings.Join(worker.asked(), "\n"), "status \nwaiting "+`{"targets":["a/long:name","mail"]}`; got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// As JSON it is the worker's answer, and nobody's table is asked for anything.
func TestStatusAsJSONAsksNoTable(t *testing.T) {
	t.Parallel()
	worker := standingWorker(t)
	got := jobctl{}.run(t, "--port", worker.port, "status", "--output=json")
	if got.code != 0 || got.err != "" || !sameJSON(t, got.out, standingAnswer("node-1", 4)) || strings.Join(worker.asked(), "") != "status " {
		t.Errorf("%+v, asked %q", got, worker.asked())
	}
}

// standingFleet is a master of a worker that is older, one that hangs, and two that share a target.
// What it is asked for a worker the worker at that address answers.
func standingFleet(t *testing.T, waiting map[string]string) *daemon {
	t.Helper()
	worker := func(port int, name, rest string) string {
		return fmt.Sprintf(`{"remoteAddr": "10.0.0.%d", "remotePort": 40000, "targets": ["mail"], "name": %q, %s}`, port, name, rest)
	}
	d := &daemon{}
	answer := func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.data = append(d.data, request.Type+" "+string(request.Data))
		if request.Type == "status" {
			return json.RawMessage(`{"workers": [` + strings.Join([]string{
				worker(1, "node-1", `"workerStatus": `+standingAnswer("node-1", 4)),
				worker(2, "node-2", `"workerStatus": `+standingAnswer("node-2", 1)),
				worker(3, "node-3", `"workerStatusError": "no answer within 5s"`),
				worker(4, "old", `"workerStatus": {"targets": {"other": {"paused": false, "concurrency": 2, "length": 7}}}`),
			}, ",") + `], "memoryUsage": {"rss": 1048576}, "unserved": [{"target": "mial", "since": 1795172400000}], "unservedCount": 3,
				"down": [{"name": "w9", "remoteAddr": "10.0.0.9", "targets": ["a", "b", "c", "d", "e", "f"], "targetsCut": 2, "since": 1795172400000}],
				"troubles": [{"what": "journal", "why": "no space left", "since": "2026-11-20T11:00:00Z"}]}`), nil
		}
		address, err := request.Fields().Text("worker")
		if err != nil {
			return nil, err
		}
		if rows, can := waiting[address]; can {
			return json.RawMessage(fmt.Sprintf(`{"workers": [{"name": "n", "address": %q, "data": %s}]}`, address, rows)), nil
		}
		return json.RawMessage(fmt.Sprintf(`{"workers": [{"name": "n", "address": %q, "error": "no answer within 30s"}]}`, address)), nil
	}
	d.port = listen(t, jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{"status": answer, "waiting": answer}})
	return d
}

const fleetRows = `{"targets": {"mail": {"count": 40, "oldest": 1795175400}, "a/long:name": {"count": 0}, "mial": {"count": 3, "oldest": 1795175400}}}`

func TestStatusOfAMasterAddsUp(t *testing.T) {
	t.Parallel()
	master := standingFleet(t, map[string]string{"10.0.0.1:40000": fleetRows})
	const want = `NAME   | ADDRESS        | VERSION | UP   | DATABASE  | LAG | SLOTS | TARGETS
-------+----------------+---------+------+-----------+-----+-------+--------
node-1 | 10.0.0.1:40000 | 1.4.0   | 3d5h | reachable | 5   | 4/15  | 2
node-2 | 10.0.0.2:40000 | 1.4.0   | 3d5h | reachable | 5   | 1/15  | 2
node-3 | 10.0.0.3:40000 | ?       | ?    | ?         | ?   | ?     | 1
old    | 10.0.0.4:40000 | ?       | ?    | ?         | ?   | ?/2   | 1

4 workers, 3 targets; 5 of 32 slots in use, 4 prefetched
the table does not show 10 events yet
master's resident memory: 1.0 MiB

TARGET      | WORKERS | SLOTS | PREFETCHED | WAITING | OLDEST | PAUSED
------------+---------+-------+------------+---------+--------+-------
a/long:name | 2       | 0/20  | 0          | 0       |        | 2 of 2
mail        | 2       | 5/10  | 4          | 40      | 10m0s  | no
other       | 1       | ?/2   | ?          | ?       | ?      | no

the master refuses changes since 11:00:00: no space left
worker node-3: no answer within 5s
worker w9 down since 11:00:00
target mial was poked, and no worker serves it since 11:00:00
worker old: it reports no more, because it is an older jobd, or the original
`
	jobctl{terminal: true}.expect(t, master, output{code: 1, out: want, err: "jobctl: worker 'node-3': no answer within 5s\n"}, "--master", "status")
	if got := master.asked(); len(got) != 2 || got[1] != `waiting {"others":true,"targets":["a/long:name","mail","other","mial","a","b","c","d","e","f"],"worker":"10.0.0.1:40000"}` {
		t.Errorf("asked %q", got)
	}
}

// Where a worker can't count, the next one that serves the target does.
func TestAnotherWorkerCounts(t *testing.T) {
	t.Parallel()
	master := standingFleet(t, map[string]string{
		"10.0.0.1:40000": `{"targets": {"mail": {"count": 0, "error": "it was not counted"}, "a/long:name": {"count": 1}}}`,
		"10.0.0.2:40000": fleetRows,
	})
	got := jobctl{}.run(t, "--master", "--port", master.port, "status")
	if !strings.Contains(got.out, "mail         2        5/10   4           ?  ") || !strings.Contains(got.out, "a/long:name  2        0/20   0           1  ") {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.out, "the number of waiting rows is not known: worker 'node-1': rows of target mail: it was not counted\n") {
		t.Errorf("why the first could not is not said: %+v", got)
	}
}

// The pages in the documentation are those that these tests have seen.
func TestDocumentedPagesOfStatus(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "jobctl.md")))(t)
	worker := standingWorker(t)
	for _, args := range []string{"status", "queue"} {
		got := jobctl{terminal: true}.run(t, "--port", worker.port, args)
		if page := "```\n$ jobctl " + args + "\n" + got.out + "```\n"; got.out == "" || !strings.Contains(string(text), page) {
			t.Errorf("docs/jobctl.md does not have\n%s", page)
		}
	}
}

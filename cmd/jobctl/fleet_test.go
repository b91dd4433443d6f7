package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	jobnet "jobd/net"
	"jobd/store/storetest/check"
)

// fleetOf is a master of two workers, which restart and take over concurrencies as they are told.
// What they were told stands in the text that it gives.
func fleetOf(t *testing.T, refuses string) (port string, told func() string) {
	var mu sync.Mutex
	var requests []string
	run := map[string]int{"w1": 1, "w2": 1} // how often each was started
	slots := map[string]int{"w1": 2, "w2": 5}
	status := func(name string, at int) string {
		return fmt.Sprintf(`{"name": %q, "remoteAddr": "a", "remotePort": %d, "targets": ["mail"], "workerStatus":
			{"pid": %d, "startedAt": %d, "version": "v%d", "targets": {"mail": {"concurrency": %d}}}}`, name, at, 100*at+run[name], run[name], run[name], slots[name])
	}
	answer := func(typ string, act func(name string, data jobnet.Fields) string) jobnet.Handler {
		return func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			address, _ := request.Fields().Text("worker")
			name := map[string]string{"a:1": "w1", "a:2": "w2"}[address]
			requests = append(requests, typ+" "+name)
			if name == refuses {
				return json.RawMessage(fmt.Sprintf(`{"workers": [{"name": %q, "error": "no, thanks"}]}`, name)), nil
			}
			return json.RawMessage(fmt.Sprintf(`{"workers": [{"name": %q, "data": %s}]}`, name, act(name, request.Fields()))), nil
		}
	}
	port = listen(t, jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			return json.RawMessage(`{"workers": [` + status("w1", 1) + `, ` + status("w2", 2) + `], "memoryUsage": {}}`), nil
		},
		"restart": answer("restart", func(name string, _ jobnet.Fields) string {
			run[name]++
			slots[name] = 2
			return `"ok"`
		}),
		"set-target-concurrency": answer("set", func(name string, data jobnet.Fields) string {
			asked := &jobnet.Reader{Fields: data}
			slots[name] = int(asked.Int("concurrency"))
			return `"ok"`
		}),
	}})
	return port, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(requests, ", ")
	}
}

// All workers of a master restart one after the other, after a question; the first one that says no
// ends it, and the others are as they were.
func TestRestartAll(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args, refuses string
		want          output
		told          string
	}{
		{"restart", "", output{2, "", "jobctl: restart: give --all to restart all workers of the master, one after the other; for one of them omit --master, and give its --host and --port\n"}, ""},
		{"restart --all", "", output{2, "", "jobctl: 2 workers would be restarted, one after the other. There is no terminal to ask at: give --yes to go on, or --dry-run to see them\n"}, ""},
		{"restart --all --dry-run --output json", "", output{0, "{\"pid\":101,\"version\":\"v1\",\"worker\":\"w1\"}\n{\"pid\":201,\"version\":\"v1\",\"worker\":\"w2\"}\n", ""}, ""},
		{"restart --all --yes", "", output{0, "worker w1: process 102 serves again, version v2\nworker w2: process 202 serves again, version v2\n  target mail: 5 slots → 2, as the file says\n", ""}, "restart w1, restart w2"},
		{"restart --all --yes", "w1", output{1, "", "jobctl: worker w1: no, thanks\njobctl: left as they are: w2\n"}, "restart w1"},
		{"restart --all --yes --output json", "", output{0, `{"workers":{"w1":{"pid":102,"startedAt":2,"version":"v2"},"w2":{"pid":202,"startedAt":2,"version":"v2"}}}` + "\n", ""}, "restart w1, restart w2"},
	} {
		port, told := fleetOf(t, test.refuses)
		if got := (jobctl{}).run(t, append([]string{"--master", "--port", port}, strings.Fields(test.args)...)...); got != test.want || told() != test.told {
			t.Errorf("%s (%s refuses):\ngot  %+v, %s\nwant %+v, %s", test.args, test.refuses, got, told(), test.want, test.told)
		}
	}
	if got := (jobctl{}).run(t, "restart", "--all"); got.code != 2 || !strings.Contains(got.err, "needs --master") {
		t.Errorf("got %+v", got)
	}
}

// The concurrency of a target is set on each worker that serves it, after a question. One that says no
// keeps the others from nothing.
func TestConcurrencyOfAll(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args, refuses string
		want          output
		told          string
	}{
		{"mail 20", "", output{2, "", "jobctl: Target mail would have 20 slots on each of 2 workers, 40 in all. There is no terminal to ask at: give --yes to go on, or --dry-run to see them\n"}, ""},
		{"mail 20 --dry-run", "", output{0, "WORKER  TARGET  SLOTS  THEN\nw1      mail    2      20\nw2      mail    5      20\n", ""}, ""},
		{"mail 20 --yes", "", output{0, "worker w1: target mail has 20 slots\nworker w2: target mail has 20 slots\n", ""}, "set w1, set w2"},
		{"mail 20 --yes", "w1", output{1, "worker w2: target mail has 20 slots\n", "jobctl: worker w1: no, thanks\n"}, "set w1, set w2"},
		{"fax 20 --yes", "", output{1, "", "jobctl: no worker serves target 'fax'\n"}, ""},
		{"mail 0 --yes", "", output{2, "", "jobctl: set-target-concurrency: concurrency \"0\" is not allowed; allowed: a whole number of at least 1\n"}, ""},
	} {
		port, told := fleetOf(t, test.refuses)
		args := append([]string{"--master", "--port", port, "set-target-concurrency"}, strings.Fields(test.args)...)
		if got := (jobctl{}).run(t, args...); got != test.want || told() != test.told {
			t.Errorf("%s (%s refuses):\ngot  %+v, %s\nwant %+v, %s", test.args, test.refuses, got, told(), test.want, test.told)
		}
	}
}

const executorsAnswer = `{"targets": {"hook": {"concurrency": 2, "why": "the service can't be reached: refused"}, "mail": {"concurrency": 4}, "sms": {"why": "no process gets ready for its jobs: exit code 1\u001b[31m"}},
	"executors": [
		{"target": "hook", "mode": "http", "slots": 2, "address": "http://h/run/{id}", "processes": 0, "ready": 0, "busy": 1, "booting": 0, "boots": 3, "jobs": 12345, "unready": "the service can't be reached: refused", "since": 1795168805000},
		{"target": "mail", "mode": "fork", "slots": 4, "processes": 5, "ready": 2, "busy": 2, "booting": 1, "boots": 19, "jobs": 900, "recycled": {"max_jobs": 12, "recycle": 2, "watch": 12}},
		{"target": "sms", "mode": "pool", "slots": 1, "processes": 1, "booting": 1, "unready": "exit code 1\u001b[31m", "since": 1795168805000}],
	"pid": 1, "database": {"reachable": true}, "runner": {"reachable": true}}`

// A line for each executor, and below, once, why some can't start anything.
func TestStatusTellsOfExecutors(t *testing.T) {
	t.Parallel()
	daemon := startDaemon(t, "", map[string]any{"status": json.RawMessage(executorsAnswer), "waiting": json.RawMessage(`{"targets": {}}`)})
	got := jobctl{terminal: true}.run(t, "--port", daemon.port, "status")
	const table = `
TARGET | EXECUTOR | PROCESSES | READY | BUSY | BOOTING | JOBS   | REPLACED
-------+----------+-----------+-------+------+---------+--------+--------------------------------------
hook   | http     |           |       | 1    |         | 12,345 | 0
mail   | fork     | 5         | 2     | 2    | 1       | 900    | 26 (max_jobs 12, watch 12, recycle 2)
sms    | pool     | 1         | 0     | 0    | 1       | 0      | 0

no job of target hook can be started since 10:00:05: the service can't be
    reached: refused
no job of target sms can be started since 10:00:05: exit code 1\x1b[31m
`
	if got.code != 0 || !strings.Contains(got.out, table) || strings.Contains(got.out, "nothing is claimed for target") || strings.Contains(got.out, "launcher: no fault") {
		t.Errorf("exit code %d, stdout:\n%s\nwant in it:\n%s", got.code, got.out, table)
	}
}

// That the jobs of some targets can't be started is a warning; the others run.
func TestHealthWarnsOfExecutors(t *testing.T) {
	t.Parallel()
	daemon := startDaemon(t, "", map[string]any{"status": json.RawMessage(executorsAnswer), "waiting": json.RawMessage(`{"targets": {}}`)})
	got := jobctl{}.run(t, "--port", daemon.port, "health")
	if got.code != 1 || !strings.HasPrefix(got.out, "JOBD WARNING") || !strings.Contains(got.out, "no job of target hook can be started for ") {
		t.Errorf("exit code %d: %s", got.code, got.out)
	}
}

// So is who answered in a process's name.
func TestAStrangerIsTold(t *testing.T) {
	t.Parallel()
	const why = "process 8 (curl) wrote exit 5 0 to descriptor 4 of process 7, which is no answer"
	const answer = `{"targets": {"mail": {"concurrency": 2}}, "executors": [{"target": "mail", "mode": "fork", "slots": 2, "processes": 2, "ready": 2,
		"stranger": "` + why + `", "strangerAt": 1795168805000}], "pid": 1, "database": {"reachable": true}, "runner": {"reachable": true}}`
	daemon := startDaemon(t, "", map[string]any{"status": json.RawMessage(answer), "waiting": json.RawMessage(`{"targets": {}}`)})
	status := jobctl{terminal: true}.run(t, "--port", daemon.port, "status")
	check.Contains(t, status.out, "\ntarget mail, 10:00:05: process 8 (curl) wrote", "status: … want in it")
}

const troubledAnswer = `{"targets": {
  "mail": {"paused": false, "concurrency": 5, "length": 0, "why": "12 waiting rows are locked by somebody else"},
  "video": {"paused": false, "concurrency": 1, "length": 1, "why": ""},
  "report": {"paused": false, "concurrency": 2, "length": 0, "why": "the launcher\u001b[31m is missing"}},
  "jobPromisesCount": 0,
  "memoryUsage": {"rss": 1048576},
  "journal": {"events": 10, "mirrored": 10, "bytes": 1024, "segments": 1},
  "server": "6f1c-uuid", "mark": "k3f9x",
  "notReady": [
    {"what": "database", "why": "no route\u001b to host", "since": "2026-11-20T10:00:05Z"},
    {"what": "stopping", "why": "it is being stopped"}],
  "asideCount": 3,
  "aside": [
    {"job": 41, "target": "mail", "reason": "the row is locked by somebody else", "since": "2026-11-20T10:00:05Z"},
    {"job": 42, "target": "video", "reason": "CHECK constraint \"c\" fails", "since": "2026-11-20T10:00:06.5Z"}]}`

// What keeps a worker from its work is said in words, and where nothing does, or an older worker answers, nothing is said.
func TestStatusTellsWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	worker := startDaemon(t, "", map[string]any{"status": json.RawMessage(troubledAnswer)})
	master := startDaemon(t, "", map[string]any{"status": json.RawMessage(strings.Replace(masterAnswer, workerAnswer, troubledAnswer, 1))})
	for name, test := range map[string]struct {
		daemon *daemon
		piped  bool
		args   string
		want   string // how the answer ends
	}{
		"a worker": {daemon: worker, args: "status", want: `
it takes no work since 10:00:05: database: no route\x1b to host
it takes no work: it is stopping

rows quarantined, and tried again until they can be changed: 3
JOB | TARGET | SINCE    | REASON
----+--------+----------+-----------------------------------
41  | mail   | 10:00:05 | the row is locked by somebody else
42  | video  | 10:00:06 | CHECK constraint "c" fails
and 1 more
`},
		"a master": {daemon: master, args: "--master status", piped: true, want: `
worker node-1: it takes no work since 2026-11-20 10:00:05.000000: database: no route\x1b to host
worker node-1: it takes no work: it is stopping
worker node-2: timed out
worker node-1: it reports no more, because it is an older jobd, or the original

worker node-1: rows quarantined, and tried again until they can be changed: 3
JOB  TARGET  SINCE                       REASON
41   mail    2026-11-20 10:00:05.000000  the row is locked by somebody else
42   video   2026-11-20 10:00:06.500000  CHECK constraint "c" fails
and 1 more
`},
	} {
		got := jobctl{terminal: !test.piped}.run(t, append([]string{"--port", test.daemon.port}, strings.Fields(test.args)...)...)
		if (got.code == 1) != (test.daemon == master) || // a worker of the master is silent
			!strings.HasSuffix(got.out, test.want) {
			t.Errorf("%s: exit code %d, stderr %q, stdout:\n%s\nwant at its end:\n%s", name, got.code, got.err, got.out, test.want)
		}
	}
}

// A launcher that is broken is what an operator must see first.
func TestStatusTellsOfALauncherThatIsBroken(t *testing.T) {
	t.Parallel()
	with := strings.TrimSuffix(workerAnswer, "}") + `, "launcher": {"broken": "/opt/run\u001b: no such file", "since": "2026-11-20T10:00:05Z"}, "claimsInDoubt": 2, "rowsOfNoWorker": 1234,
		"masters": [{"address": "10.0.0.1:7081", "registered": true}, {"address": "10.0.0.2:7081", "registered": false, "error": "invalid password"}]}`
	worker := startDaemon(t, "", map[string]any{"status": json.RawMessage(with)})
	master := startDaemon(t, "", map[string]any{"status": json.RawMessage(strings.Replace(masterAnswer, workerAnswer, with, 1))})
	got := jobctl{}.run(t, "--port", worker.port, "status")
	if want := `
nothing is started since 2026-11-20 10:00:05.000000: /opt/run\x1b: no such file
it is not registered with the master 10.0.0.2:7081: invalid password

claims that may or may not have been committed: 2

rows of its targets that are under way, and that no worker has claimed: 1,234
`; got.code != 0 || !strings.HasSuffix(got.out, want) {
		t.Errorf("%+v", got)
	}
	got = jobctl{}.run(t, "--master", "--port", master.port, "status")
	if want := `
worker node-1: nothing is started since 2026-11-20 10:00:05.000000: /opt/run\x1b: no such file
worker node-1: it is not registered with the master 10.0.0.2:7081: invalid password
worker node-2: timed out
worker node-1: it reports no more, because it is an older jobd, or the original

worker node-1: claims that may or may not have been committed: 2

worker node-1: rows of its targets that are under way, and that no worker has claimed: 1,234
`; !strings.HasSuffix(got.out, want) {
		t.Errorf("%+v", got)
	}
}

// Each cause is told once, whole, with all that follows from it, and the page fits a terminal.
func TestStatusTellsEachCauseOnce(t *testing.T) {
	t.Parallel()
	const down = "check table jobs: dial tcp 10.0.0.9:3306: connect: connection refused: table `app`.`jobs` at 10.0.0.9:3306 (mysql_host, mysql_port); start the server, or correct mysql_host and mysql_port"
	answer := func(name string) string {
		return `{"targets": {"mail": {"concurrency": 5, "why": "claim jobs: ` + down + `"}, "video": {"concurrency": 1, "why": "` + down + `"}},
			"name": "` + name + `", "pid": 4711, "startedAt": 1794898800000, "journal": {"events": 10, "mirrored": 9, "bytes": 1024, "segments": 1}, "runner": {"reachable": true},
			"database": {"reachable": false, "since": "2026-11-20T10:00:05Z", "error": "` + down + `"},
			"notReady": [{"what": "database", "why": "` + down + `", "since": "2026-11-20T10:00:05Z"}]}`
	}
	worker := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(answer("node-1")), "waiting": jobnet.Refusal("the database is away since 2026-11-20T10:00:05Z: " + down),
	})
	got := jobctl{terminal: true}.run(t, "--port", worker.port, "status")
	flat := strings.Join(strings.Fields(got.out), " ")
	if n := strings.Count(flat, "10.0.0.9:3306: connect"); n != 1 || !strings.Contains(flat, down) {
		t.Errorf("told %d times:\n%s", n, got.out)
	}
	lines := strings.Split(got.out, "\n")
	for _, line := range lines {
		if len([]rune(line)) > 80 {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
	if len(lines) > 24 {
		t.Errorf("%d lines:\n%s", len(lines), got.out)
	}
	workers := func(name string, port int) string {
		return fmt.Sprintf(`{"remoteAddr": "10.0.0.1", "remotePort": %d, "targets": ["mail", "video"], "name": %q, "workerStatus": %s}`, port, name, answer(name))
	}
	master := startDaemon(t, "", map[string]any{"status": json.RawMessage(`{"workers": [` + workers("node-1", 1) + "," + workers("node-2", 2) + `], "memoryUsage": {}}`)})
	got = jobctl{terminal: true}.run(t, "--master", "--port", master.port, "status")
	flat = strings.Join(strings.Fields(got.out), " ")
	if n := strings.Count(flat, "10.0.0.9:3306: connect"); n != 1 || !strings.Contains(flat, "workers node-1, node-2: the database is away since 10:00:05") {
		t.Errorf("told %d times:\n%s", n, got.out)
	}
}

// A master of this version whose workers are all older or the original's: why they don't answer is
// said, and what they might know is not said to be missing.
func TestAMasterThatHasOlderWorkersOnly(t *testing.T) {
	t.Parallel()
	older := map[string]any{"workers": []any{map[string]any{"name": "w", "address": "a:1", "error": "unknown request type: 'x'"}}}
	master := startDaemon(t, "", map[string]any{"cancel": older, "explain": older, "status": map[string]any{"workers": []any{}}})
	for args, want := range map[string]string{
		"cancel 5": "no worker could be asked",
		"show 5":   "row: not known",
	} {
		got := jobctl{}.run(t, append([]string{"--master", "--port", master.port}, strings.Fields(args)...)...)
		if got.code == 0 || !strings.Contains(got.out+got.err, want) || strings.Contains(got.out, "row: none") ||
			!strings.Contains(got.err, "worker 'w': it can't") || !strings.Contains(got.err, "an older jobd, or the original") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// Through a master each worker reads its file, and says what has changed or why nothing has.
func TestReloadOfAllWorkers(t *testing.T) {
	t.Parallel()
	port := listen(t, jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			return json.RawMessage(`{"workers": [
				{"name": "w1", "remoteAddr": "a", "remotePort": 1, "targets": ["mail"], "workerStatus": {"targets": {"mail": {}}}},
				{"name": "w2", "remoteAddr": "a", "remotePort": 2, "targets": ["mail"], "workerStatus": {"targets": {"mail": {}}}}], "memoryUsage": {}}`), nil
		},
		"reload": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			if worker, _ := request.Fields().Text("worker"); worker == "a:2" {
				return json.RawMessage(`{"workers": [{"name": "w2", "error": "not reloaded: /etc/jobd.conf:14: no"}]}`), nil
			}
			return json.RawMessage(`{"workers": [{"name": "w1", "data": {"file": "/etc/jobd.conf", "changed": ["port", "targets.mail"],
				"later": ["port"], "before": {"mail": {"concurrency": 2}}, "after": {"mail": {"concurrency": 4}}}}]}`), nil
		},
	}})
	got := jobctl{}.run(t, "--master", "--port", port, "reload")
	want := output{
		1, `worker w1: port, targets.mail changed in /etc/jobd.conf
  target mail: 2 slots → 4, as the file says
  from its next start on: port (jobctl restart)
`, "jobctl: worker w2: not reloaded: /etc/jobd.conf:14: no\n",
	}
	check.Equal(t, got, want)
}

// Of two workers only the second serves target sh, and uses the columns that say when a row is due: what the first one
// says of such rows does not count, and it is not asked to change them.
func TestAWorkerThatDoesNotServeTheTargetHasNoSay(t *testing.T) {
	t.Parallel()
	const refusal = `"error": "delayed rows are not run here: the key use_columns does not name run_at"`
	answers := map[string][2]string{ // of the first, and of the second
		"explain": {
			`"data": {"name": "w1", "jobs": [{"job": 5, "row": {"target": "sh", "status": "delayed"}}]}`,
			`"data": {"name": "w2", "jobs": [{"job": 5, "row": {"target": "sh", "status": "delayed", "plan": {"run_at": 1763640240, "now": 1763640000}}, "target": {"name": "sh", "concurrency": 1, "room": 1}}]}`,
		},
		"journal-events": {`"data": {"name": "w1", "cursor": "c"}`, `"data": {"name": "w2", "cursor": "c"}`},
		"journal-next":   {`"data": {"items": [], "more": false}`, `"data": {"items": [], "more": false}`},
		"journal-anchor": {`"data": {"seq": 1, "hash": ""}`, `"data": {"seq": 1, "hash": ""}`},
		"journal-rows": {
			`"data": {"rows": [{"job": 5, "target": "sh", "status": "delayed"}]}`,
			`"data": {"rows": [{"job": 5, "target": "sh", "status": "delayed", "plan": {"run_at": 1763640240}}]}`,
		},
		"cancel": {
			`"data": {"jobs": {}, "errors": {"5": "job 5 is delayed, and delayed rows are not run here: the key use_columns does not name run_at"}}`,
			`"data": {"jobs": {"5": {"state": "ignored", "target": "sh"}}}`,
		},
		"run-now": {refusal, `"data": {"jobs": {"5": 1763640240}}`},
		"recurring": {
			`"error": "rows do not recur here: use_columns does not name schedule"`,
			`"data": {"rows": [{"job": 6, "target": "sh", "status": "delayed", "schedule": "every 5m", "zone": "UTC", "run_at": 1763640240}]}`,
		},
	}
	handlers := map[string]jobnet.Handler{"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
		return json.RawMessage(`{"workers": [
			{"name": "w1", "remoteAddr": "a", "remotePort": 1, "targets": ["mail", "pdf"], "workerStatus": {"targets": {"mail": {}, "pdf": {}}}},
			{"name": "w2", "remoteAddr": "a", "remotePort": 2, "targets": ["sh"], "workerStatus": {"targets": {"sh": {}}}}], "memoryUsage": {}}`), nil
	}}
	for typ, of := range answers {
		handlers[typ] = func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			var asked struct {
				Worker string
				Rows   bool
			}
			_ = json.Unmarshal(request.Data, &asked)
			var said []string
			for i, address := range []string{"a:1", "a:2"} {
				answer := of[i]
				if typ == "cancel" && !asked.Rows {
					answer = `"data": {"jobs": {}, "errors": {}}`
				}
				if asked.Worker == "" && !asked.Rows || asked.Worker == address {
					said = append(said, fmt.Sprintf(`{"name": "w%d", "address": %q, %s}`, i+1, address, answer))
				}
			}
			return json.RawMessage(`{"workers": [` + strings.Join(said, ", ") + `]}`), nil
		}
	}
	d := &daemon{port: listen(t, jobnet.ServerConfig{Handlers: handlers})}
	for args, want := range map[string]string{
		"why 5":           "job 5 is delayed until ",
		"show 5":          "job 5 is delayed until ",
		"cancel 5":        "5    sh      w2      ignored: it will not run\n",
		"run-now 5":       "5    sh ",
		"schedule --list": "6    sh ",
	} {
		got := jobctl{}.run(t, append([]string{"--port", d.port, "--master"}, strings.Fields(args)...)...)
		if got.code != 0 || !strings.Contains(got.out, want) || got.err != "" {
			t.Errorf("%s: %+v, want %q", args, got, want)
		}
	}
}

// A filter whose target nobody serves is most likely mistyped: that is an error where it finds nothing. Where it finds
// nothing of another target, a command that changes jobs says so.
func TestAFilterThatFindsNothing(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"status":     json.RawMessage(`{"targets": {"mail": {}}}`),
		"unfinished": json.RawMessage(`{"jobs": []}`), "running": json.RawMessage(`{"jobs": [], "total": 0}`), "recurring": json.RawMessage(`{"rows": []}`),
		"journal-anchor": json.RawMessage(`{"seq": 1, "hash": ""}`), "journal-rows": json.RawMessage(`{"rows": []}`),
		"journal-events": json.RawMessage(`{"name": "node-1", "cursor": "c", "understood": ["result", "last_line"]}`), "journal-next": json.RawMessage(`{"items": [], "more": false}`),
	})
	for args, served := range map[string]output{
		"cancel --yes":    {err: "jobctl: there is no job of target mail to cancel\n"},
		"retry --failed":  {err: "jobctl: there is no job to set back\n"},
		"ps":              {out: "JOB  TARGET  PID  TRY  SINCE  ELAPSED  CPU  MEMORY\n"},
		"failed":          {out: "JOB  ENDED  TARGET  EXIT  ROW  STDERR\n"},
		"schedule --list": {out: "JOB  TARGET  SCHEDULE  LAST RUN  RESULT  NEXT RUN\n"},
	} {
		jobctl{}.expect(t, d, served, strings.Fields(args+" --target mail")...)
		want := output{code: 1, out: served.out, err: "jobctl: no worker serves target 'mial'; the nearest that is served is 'mail'\n"}
		jobctl{}.expect(t, d, want, strings.Fields(args+" --target mial")...)
	}
	jobctl{}.expect(t, d, output{}, "cancel", "--target", "mail", "--yes", "--output", "json")
}

// Where nobody can be asked, reapply changes no row without --yes.
func TestReapplyAsks(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(`{"targets": {}}`), "journal-anchor": json.RawMessage(`{"seq": 1, "hash": ""}`),
		"journal-reapply": json.RawMessage(`{"name": "node-1", "cursor": "c"}`),
		"journal-next":    json.RawMessage(`{"items": [{"job": 5, "found": {"job": 5, "status": "waiting"}, "want": {"job": 5, "status": "done"}, "did": "would apply"}], "more": false}`),
	})
	for _, format := range []string{"table", "json"} {
		got := jobctl{}.run(t, "--port", d.port, "journal", "reapply", "--output", format)
		if got.code != 2 || !strings.Contains(got.out, "would apply") || !strings.Contains(got.err, "1 rows would be updated to what the journals say. There is no terminal to ask at: give --yes") {
			t.Errorf("%+v", got)
		}
	}
	for _, asked := range d.asked() {
		if strings.HasPrefix(asked, "journal-reapply ") && !strings.Contains(asked, `"unknown":true`) && !strings.Contains(asked, `"dry_run":true`) {
			t.Errorf("asked %q without a yes", asked)
		}
	}
}

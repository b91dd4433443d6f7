package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jobnet "jobd/net"
)

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

claims of which it is not known yet whether they were committed: 2

rows of its targets that are under way, and that no worker has claimed: 1,234
`; got.code != 0 || !strings.HasSuffix(got.out, want) {
		t.Errorf("%+v", got)
	}
	got = jobctl{}.run(t, "--master", "--port", master.port, "status")
	if want := `
worker node-1: nothing is started since 2026-11-20 10:00:05.000000: /opt/run\x1b: no such file
worker node-1: it is not registered with the master 10.0.0.2:7081: invalid password

worker node-1: claims of which it is not known yet whether they were committed: 2

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

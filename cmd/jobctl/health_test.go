package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	jobnet "jobd/net"
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
	const numbers = ` | waiting=7;;;0 oldest=60s;900;3600;0 running=4;;;0;5 failed=15%;;;0;100 lag=5;10000;1000000;0 aside=0;;;0`
	for name, test := range map[string]struct {
		more, waiting, args string
		code                int
		want                string
	}{
		"well": {"", recent, "", 0, "JOBD OK - worker node-1: 4 of 5 slots in use, 7 rows wait" + numbers},
		"away": {
			`,"database": {"reachable": false}, "notReady": [{"what": "database", "why": "no route | to\nhost"}]`, recent, "", 2,
			"JOBD CRITICAL - worker node-1: the database is away: no route / to",
		},
		"a reason of an older worker": {`,"database": {"reachable": false, "error": "it is off"}`, recent, "", 2, "JOBD CRITICAL - worker node-1: the database is away: it is off"},
		"old":                         {"", old, "", 1, "JOBD WARNING - worker node-1: the oldest row of target mail waits for 20m0s, 4 of 5"},
		"max age":                     {"", old, " --max-age 15m", 2, "JOBD CRITICAL - worker node-1: the oldest row of target mail waits for 20m0s"},
		"max age, younger":            {"", old, " --max-age 30m", 0, "JOBD OK - "},
		"max lag": {
			`,"journal": {"events": 9, "mirrored": 4, "unshownSince": "2026-11-20T11:50:00Z"}`, recent, " --max-lag 5m", 2,
			"JOBD CRITICAL - worker node-1: the table is behind for 10m0s",
		},
		"aside": {
			`,"asideCount": 2, "aside": [{"job": 1, "target": "mail", "reason": "locked", "since": "2026-11-01T00:00:00Z"}]`, recent, "", 1,
			"JOBD WARNING - worker node-1: 2 rows quarantined, the first for",
		},
		"no master": {`,"masters": [{"address": "10.0.0.1:7081", "error": "refused"}]`, recent, "", 1, "JOBD WARNING - worker node-1: it is not registered with the master 10.0.0.1:7081: refused"},
		"uncounted": {
			"", `{"targets": {"mail": {"error": "too slow"}}}`, "", 3,
			"JOBD UNKNOWN - worker node-1: what waits is not known: rows of target mail: too slow, 4 of 5 slots in use, how many rows wait is not known | waiting=U oldest=U running=4",
		},
		"away, uncounted": {
			`,"database": {"reachable": false, "error": "it is off"}`, `{"targets": {"mail": {"error": "it is off"}}}`, "", 2,
			"JOBD CRITICAL - worker node-1: the database is away: it is off, 4 of 5 slots in use, how many rows wait is not known | waiting=U oldest=U running=4",
		},
		"paused": {
			`,"targets": {"mail": {"concurrency": 5, "paused": true}}`, old, "", 1,
			"JOBD WARNING - worker node-1: the oldest row of target mail, which is paused, waits for 20m0s, 0 of 5",
		},
		"a configuration with a mistake": {
			`,"configRefusedSince": "2026-11-20T11:59:00Z"`, recent, "", 1,
			"JOBD WARNING - worker node-1: its configuration has had a mistake for 1m0s, and the old one stays in force, 4 of 5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := healthDaemon(t, healthAnswer("node-1", test.more), test.waiting)
			got := jobctl{}.run(t, strings.Fields("--port "+d.port+" health"+test.args)...)
			if got.code != test.code || !strings.HasPrefix(got.out, test.want) || strings.Count(got.out, "\n") != 1 || strings.Count(got.out, "|") != 1 || got.err != "" {
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
		"well":           {well, "", "", 0, "JOBD OK - master at 127.0.0.1:%s: 1 worker, 4 of 5 slots in use, 7 rows wait | workers=1;;;0 ready=1;;;0 unserved=0;;;0"},
		"none":           {"", "", "", 2, "JOBD CRITICAL - master at 127.0.0.1:%s: 0 workers registered"},
		"one is silent":  {well + "," + away, "", "", 1, "JOBD WARNING - master at 127.0.0.1:%s: worker two: no answer"},
		"all are silent": {away, "", "", 2, "JOBD CRITICAL - master at 127.0.0.1:%s: worker two: no answer"},
		"the master refuses changes": {
			well, `,"troubles": [{"what": "journal", "why": "no space\nleft"}]`, "", 1,
			"JOBD WARNING - master at 127.0.0.1:%s: the master refuses changes: no space / left, 1 worker, 4 of 5 slots in use, 7 rows wait | workers=1;;;0 ready=1;;;0 unserved=0;;;0",
		},
		"a worker is down": {
			well, fmt.Sprintf(`,"down": [{"name": "w2", "targets": ["mail"], "since": %d}]`, jobctlNow.UnixMilli()-60_000), "", 1,
			"JOBD WARNING - master at 127.0.0.1:%s: worker w2 down for 1m0s, 1 worker, 4 of 5 slots in use, 7 rows wait | workers=1;;;0 ready=1;;;0 unserved=0;;;0",
		},
		"unserved": {
			well, fmt.Sprintf(`,"unserved": [{"target": "nobody", "since": %d}], "unservedCount": 1`, jobctlNow.UnixMilli()-60_000), "", 1,
			"JOBD WARNING - master at 127.0.0.1:%s: target nobody was poked and is served by nobody since 1m",
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
		Numbers  map[string]float64
	}
	if err := json.Unmarshal([]byte(got.out), &told); err != nil || got.code != 1 || told.Code != 1 || told.State != "warning" ||
		len(told.Problems) != 1 || told.Numbers["waiting"] != 7 || told.Numbers["oldest"] != 1200 {
		t.Errorf("exit code %d: %s, %v", got.code, got.out, err)
	}
}

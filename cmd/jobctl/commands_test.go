package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/exit"
	jobnet "jobd/net"
	"jobd/store/storetest/freeport"
	"jobd/store/storetest/must"
)

const workerAnswer = `{"targets": {
  "normal": {"paused": true, "concurrency": 5, "length": 12},
  "a/long:name": {"paused": false, "concurrency": 10, "length": 0}},
  "jobPromisesCount": 3,
  "memoryUsage": {"rss": 23068672, "heapTotal": 8388608, "heapUsed": 4194304, "external": 1024, "arrayBuffers": 0}}`

const masterAnswer = `{"workers": [
  {"remoteAddr": "10.0.0.1", "remotePort": 40000, "targets": ["a", "b"], "name": "node-1", "workerStatus": ` + workerAnswer + `},
  {"remoteAddr": "::1", "remotePort": 40001, "targets": ["c", "b"], "name": "node-2", "workerStatusError": "timed out"}],
  "memoryUsage": {"rss": 1048576, "heapTotal": 2048, "heapUsed": 1024, "external": 0, "arrayBuffers": 0}}`

func TestStatusTables(t *testing.T) {
	t.Parallel()
	worker := startDaemon(t, "", map[string]any{"status": json.RawMessage(workerAnswer)})
	master := startDaemon(t, "", map[string]any{"status": json.RawMessage(masterAnswer)})
	for name, test := range map[string]struct {
		daemon *daemon
		piped  bool
		args   string
		want   string
	}{
		"list-targets": {daemon: worker, args: "list-targets", want: `
TARGET      | CONCURRENCY | LENGTH | PAUSED
------------+-------------+--------+-------
a/long:name | 10          | 0      | no
normal      | 5           | 12     | yes
`},
		"list-targets, piped": {daemon: worker, piped: true, args: "list-targets", want: `
TARGET       CONCURRENCY  LENGTH  PAUSED
a/long:name  10           0       no
normal       5            12      yes
`},
		"list-workers": {daemon: master, args: "--master list-workers", want: `
NAME   | ADDRESS        | TARGET      | CONCURRENCY | LENGTH | PAUSED | ERROR
-------+----------------+-------------+-------------+--------+--------+----------
node-1 | 10.0.0.1:40000 | a/long:name | 10          | 0      | no     |
       |                | normal      | 5           | 12     | yes    |
node-2 | [::1]:40001    | b           |             |        |        | timed out
       |                | c           |             |        |        |
`},
		"list-workers, piped": {daemon: master, piped: true, args: "--master list-workers", want: `
NAME    ADDRESS         TARGET       CONCURRENCY  LENGTH  PAUSED  ERROR
node-1  10.0.0.1:40000  a/long:name  10           0       no      -
node-1  10.0.0.1:40000  normal       5            12      yes     -
node-2  [::1]:40001     b            -            -       -       timed out
node-2  [::1]:40001     c            -            -       -       timed out
`},
		"memory-usage of a worker": {daemon: worker, args: "memory-usage", want: `
NAME   | RESIDENT | HEAP TOTAL | HEAP USED | EXTERNAL | ARRAY BUFFERS
-------+----------+------------+-----------+----------+--------------
worker | 22 MiB   | 8.0 MiB    | 4.0 MiB   | 1.0 KiB  | 0 B
`},
		"memory-usage of a master": {daemon: master, args: "--master memory-usage", want: `
NAME   | RESIDENT | HEAP TOTAL | HEAP USED | EXTERNAL | ARRAY BUFFERS
-------+----------+------------+-----------+----------+--------------
master | 1.0 MiB  | 2.0 KiB    | 1.0 KiB   | 0 B      | 0 B
node-1 | 22 MiB   | 8.0 MiB    | 4.0 MiB   | 1.0 KiB  | 0 B
`},
		"status of an older worker": {daemon: worker, args: "status", want: `
worker at ADDRESS
it can't tell more, because it is an older jobd, or the original
manual jobs that a client waits for: 3
resident memory: 22 MiB

TARGET      | CONCURRENCY | LENGTH | PAUSED
------------+-------------+--------+-------
a/long:name | 10          | 0      | no
normal      | 5           | 12     | yes
`},
		"status of a master of older workers, piped": {daemon: master, piped: true, args: "--master status", want: `
NAME    ADDRESS         VERSION  UP  DATABASE  LAG  SLOTS  TARGETS
node-1  10.0.0.1:40000  ?        ?   ?         ?    ?/15   2
node-2  [::1]:40001     ?        ?   ?         ?    ?      2

worker node-1 can't tell more, because it is an older jobd, or the original
worker node-2 does not answer: timed out

2 workers, 2 targets; 0 of 15 slots in use, 0 prefetched
master's resident memory: 1.0 MiB

TARGET       WORKERS  SLOTS  PREFETCHED  WAITING  OLDEST  PAUSED
a/long:name  1        ?/10   ?           ?        ?       no
normal       1        ?/5    ?           ?        ?       1 of 1
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := output{out: strings.ReplaceAll(strings.TrimPrefix(test.want, "\n"), "ADDRESS\n", "127.0.0.1:"+test.daemon.port+"\n")}
			if test.daemon == master {
				want.code, want.err = 1, "jobctl: worker 'node-2': timed out\n"
			}
			jobctl{terminal: !test.piped}.expect(t, test.daemon, want, strings.Fields(test.args)...)
		})
	}
}

func TestStatusOfAJournal(t *testing.T) {
	t.Parallel()
	with := strings.TrimSuffix(workerAnswer, "}") + `, "journal": {"events": 12345, "mirrored": 12340, "bytes": 6815744, "segments": 2}}`
	worker := startDaemon(t, "", map[string]any{"status": json.RawMessage(with)})
	master := startDaemon(t, "", map[string]any{"status": json.RawMessage(strings.Replace(masterAnswer, workerAnswer, with, 1))})
	if got := (jobctl{}).run(t, "--port", worker.port, "status"); !strings.Contains(got.out, "\njournal: 12,345 events, of which the table does not show 5; 6.5 MiB in 2 segments\n") {
		t.Errorf("%+v", got)
	}
	if got := (jobctl{}).run(t, "--master", "--port", master.port, "status"); !strings.Contains(got.out, "the table does not show 5 events yet") ||
		!strings.Contains(got.out, "\nnode-1  10.0.0.1:40000  ?        ?   ?         5 ") {
		t.Errorf("%+v", got)
	}
}

func TestStatusAsJSON(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{"status": json.RawMessage(masterAnswer)})
	for _, name := range []string{"status", "list-workers", "memory-usage"} {
		got := jobctl{}.run(t, "--master", "--port", d.port, name, "--output", "json")
		if got.code != 1 || got.err != "jobctl: worker 'node-2': timed out\n" || !sameJSON(t, got.out, masterAnswer) || strings.Count(got.out, "\n") != 1 {
			t.Errorf("%s: exit code %d, output %s", name, got.code, got.out)
		}
	}
	for _, asked := range d.asked() {
		if asked != `status {"poll_workers":true}` {
			t.Errorf("asked %q", asked)
		}
	}
}

func TestCommandsThatAreAnsweredOK(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"poll":                         `poll {}`,
		"poll a b/c:d":                 `poll {"targets":["a","b/c:d"]}`,
		"--master poke a b":            `poke {"detail":true,"targets":["a","b"]}`,
		"pause":                        `pause {}`,
		"--master pause a":             `pause {"detail":true,"targets":["a"]}`,
		"continue":                     `continue {}`,
		"continue a -- --b":            `continue {"targets":["a","--b"]}`,
		"recycle":                      `recycle {}`,
		"--master recycle a b":         `recycle {"detail":true,"targets":["a","b"]}`,
		"add-target a 4":               `add-target {"concurrency":4,"target":"a"}`,
		"remove-target a":              `remove-target {"target":"a"}`,
		"set-target-concurrency a/b 1": `set-target-concurrency {"concurrency":1,"target":"a/b"}`,
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			typ, _, _ := strings.Cut(want, " ")
			d := startDaemon(t, "", map[string]any{typ: "ok"})
			jobctl{}.expect(t, d, output{out: "ok\n"}, strings.Fields(args)...)
			if got := strings.Join(d.asked(), "\n"); got != want {
				t.Errorf("asked %s, want %s", got, want)
			}
			jobctl{}.expect(t, d, output{out: "\"ok\"\n"}, append([]string{"--output=json"}, strings.Fields(args)...)...)
		})
	}
}

func TestFlagsMayStandAnywhere(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{"poke": "ok"})
	for _, args := range [][]string{
		{"--master", "--port", d.port, "poke", "a"},
		{"poke", "a", "--master", "--port", d.port},
		{"poke", "--port=" + d.port, "a", "-master"},
		{"-port", d.port, "poke", "--master", "--", "a"},
	} {
		if got := (jobctl{}).run(t, args...); got != (output{out: "ok\n"}) {
			t.Errorf("%q: %+v", args, got)
		}
	}
	for _, asked := range d.asked() {
		if asked != `poke {"detail":true,"targets":["a"]}` {
			t.Errorf("asked %s", asked)
		}
	}
}

func TestTheDaemonSaysNo(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{"poll": jobnet.Refusal("invalid target 'x'")})
	jobctl{}.expect(t, d, output{code: 1, err: "jobctl: 127.0.0.1:PORT: invalid target 'x'\n"}, "poll", "x")
	jobctl{}.expect(t, d, output{code: 1, err: "jobctl: 127.0.0.1:PORT: unknown request type: 'status'\n"}, "status")
}

func TestAnswersThatMakeNoSense(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{"status": "ok", "poll": []int{1}, "run-manual": map[string]any{}})
	for args, want := range map[string]string{
		"list-targets": "answer to status is not understood",
		"poll":         "answer to poll is not understood",
		"run-manual 5": "job 5: the daemon told nothing of it",
	} {
		got := jobctl{}.run(t, append([]string{"--port", d.port}, strings.Fields(args)...)...)
		if got.code != 1 || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v, want %q and exit code 1", args, got, want)
		}
	}
}

func TestControlCharactersOfAPeerAreShownAsSuch(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{"status": json.RawMessage(`{"targets": {"\u001b[31mred\n": {}}}`)})
	got := jobctl{terminal: true}.run(t, "--port", d.port, "list-targets")
	if strings.Contains(got.out, "\x1b") || !strings.Contains(got.out, `\x1b[31mred\n |`) {
		t.Errorf("printed %q", got.out)
	}
}

// closedPort is a port where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	port := must.Get(freeport.Take())(t)
	return strconv.Itoa(port)
}

func TestCouldNotConnect(t *testing.T) {
	t.Parallel()
	got := jobctl{}.run(t, "--port", closedPort(t), "status")
	if got.code != exit.Connect || !strings.Contains(got.err, "connection refused") {
		t.Errorf("%+v, want exit code 3", got)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	// A listener that never accepts: the connection stands, and no answer comes.
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	patiently(t, func(timeout time.Duration) string {
		got := jobctl{}.run(t, "--port", port, "--timeout", timeout.String(), "status")
		if got.code != exit.Late || !strings.Contains(got.err, "no answer within "+timeout.String()) {
			return fmt.Sprintf("%+v, want exit code 5 and the timeout", got)
		}
		return ""
	}, 50*time.Millisecond, 10*time.Second)
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	const secret = "s3cret word"
	d := startDaemon(t, secret, map[string]any{"poll": "ok"})
	path := filepath.Join(t.TempDir(), "jobctl.conf")
	must.Do(t, os.WriteFile(path, []byte("password = \""+secret+"\"\n"), 0o600))
	ok, refused := output{out: "ok\n"}, output{code: 1, err: "jobctl: 127.0.0.1:PORT: invalid password\n"}
	needed := output{code: 1, err: "jobctl: 127.0.0.1:PORT: a password or token is needed; give it in ~/.jobctl.conf, as JOBCTL_PASSWORD or with --password\n"}
	jobctl{}.expect(t, d, ok, "poll", "--config", path)
	jobctl{environ: []string{"JOBCTL_PASSWORD=" + secret}}.expect(t, d, ok, "poll")
	jobctl{environ: []string{"JOBCTL_PASSWORD=wrong"}, stdin: secret + "\r\nrest\n"}.expect(t, d, ok, "poll", "--password")
	jobctl{stdin: secret}.expect(t, d, ok, "--password", "poll")
	jobctl{}.expect(t, d, needed, "poll")
	jobctl{environ: []string{"JOBCTL_PASSWORD=wrong"}}.expect(t, d, refused, "poll")
	jobctl{stdin: "wrong\n"}.expect(t, d, refused, "poll", "--password")
	jobctl{}.expect(t, d, output{code: 1, err: "jobctl: read password from stdin: EOF\n"}, "poll", "--password")
}

// Pitfall 38: a password in argv is refused.
func TestPitfall38NoPasswordInArgs(t *testing.T) {
	t.Parallel()
	got := jobctl{}.run(t, "poll", "--password=hunter2")
	if got.code != exit.Usage || !strings.Contains(got.err, "takes no value") || strings.Contains(got.err, "hunter2") {
		t.Errorf("%+v, want exit code 2 without the password", got)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"jobd/cmd/internal/exit"
	jobnet "jobd/net"
	"jobd/store/storetest/check"
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
it reports no more, because it is an older jobd, or the original
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

2 workers, 2 targets; 0 of 15 slots in use, 0 prefetched
master's resident memory: 1.0 MiB

TARGET       WORKERS  SLOTS  PREFETCHED  WAITING  OLDEST  PAUSED
a/long:name  1        ?/10   ?           ?        ?       no
normal       1        ?/5    ?           ?        ?       1 of 1

worker node-2: timed out
worker node-1: it reports no more, because it is an older jobd, or the original
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
			check.Equal(t, strings.Join(d.asked(), "\n"), want, "asked")
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
		check.Equal(t, (jobctl{}).run(t, args...), (output{out: "ok\n"}), "%q", args)
	}
	for _, asked := range d.asked() {
		check.Equal(t, asked, `poke {"detail":true,"targets":["a"]}`, "asked")
	}
}

func TestTheDaemonSaysNo(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{"poll": jobnet.Refusal("invalid target 'x'")})
	jobctl{}.expect(t, d, output{code: 1, err: "jobctl: 127.0.0.1:PORT: the worker does not serve target 'x'\n"}, "poll", "x")
	jobctl{}.expect(t, d, output{code: 1, err: "jobctl: 127.0.0.1:PORT: unknown request type: 'status'\n"}, "status")
}

func TestAnswersThatMakeNoSense(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{"status": "ok", "poll": []int{1}, "run-manual": map[string]any{}})
	for args, want := range map[string]string{
		"list-targets": "answer to status is not understood",
		"poll":         "answer to poll is not understood",
		"run-manual 5": "job 5: the daemon reported nothing of it",
	} {
		got := jobctl{}.run(t, append([]string{"--port", d.port}, strings.Fields(args)...)...)
		if got.code != 1 || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v, want %q and exit code 1", args, got, want)
		}
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
	if got := (jobctl{}).run(t, "--password", "foo", "status"); got.code != exit.Usage || !strings.HasPrefix(got.err, "jobctl: --password takes no value: it asks") {
		t.Errorf("%+v", got)
	}
}

// Wrong usage is told without asking anybody.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	port := closedPort(t)
	for args, want := range map[string]string{
		"journal":                       "a command is missing; --help lists them",
		"pol":                           "unknown command pol; the nearest known one is poll",
		"frobnicate":                    "unknown command in place 3 of the command line; --help lists all",
		"status --foo":                  "unknown flag --foo; the nearest known one is --job", // and not --f
		"status --frobnicate":           "unknown flag in place 4 of the command line; --help lists all",
		"journal lag":                   "unknown command lag; the nearest known one is log",
		"status --targt x":              "unknown flag --targt; the nearest known one is --target",
		"--hots h status":               "unknown flag --hots; the nearest known one is --host",
		"poll --kind done":              "flag --kind is not for jobctl poll; --help lists its flags",
		"show 7 --journal /x":           "flag --journal is not for jobctl show; jobctl journal show has it",
		"status --port":                 "flag --port needs a value",
		"status --port=x":               `flag --port: port: "x" is not allowed; allowed: a whole number from 1 to 65535`,
		"status --output=xml":           `output: "xml" is not allowed; allowed: one of: table, json`,
		"status --timeout=soon":         `timeout: "soon" is not allowed`,
		"status --log-level=x":          `log_level: "x" is not allowed`,
		"status --host=":                `host: "" is not allowed`,
		"status --config=/no/such/file": "config /no/such/file: no such file",
		"status x":                      `status: takes no arguments`,
		"list-targets x":                "list-targets: takes no arguments",
		"--master list-targets":         "list-targets: only a worker knows this; omit --master",
		"list-workers":                  "list-workers: only a master knows this; use --master, or list-targets for a worker",
		"--master list-workers x":       "list-workers: takes no arguments",
		"--master poll a":               "poll: only a worker knows this; omit --master, or use poke",
		"poke a":                        "poke: only a master knows this",
		"--master poke":                 "poke: needs at least one target",
		"add-target a":                  "add-target: needs a target and a number",
		"add-target a 0":                `add-target: concurrency "0" is not allowed; allowed: a whole number of at least 1`,
		"add-target a many":             `concurrency "many"`,
		"--master add-target a 1":       "add-target: only a worker knows this",
		"set-target-concurrency a -1":   `concurrency "-1" is not allowed; allowed: a whole number of at least 1`,
		"set-target-concurrency a x":    `concurrency "x"`,
		"remove-target":                 "remove-target: needs one target",
		"remove-target a b":             "remove-target: needs one target",
		"--master remove-target a":      "remove-target: only a worker knows this",
		"run-manual":                    "run-manual: needs at least one job, as ID",
		"run-manual x":                  `run-manual: job "x" is not allowed; allowed: ID or TARGET:ID, where ID is a whole number of 64 bits other than 0`,
		"run-manual 0":                  `job "0"`,
		"run-manual 5 a:5":              "run-manual: job 5 is named twice, with different targets",
		"--master run-manual :5":        `job ":5"`,
		"--master run-manual a:":        `job "a:"`,
		"send-signal":                   "send-signal: needs a signal and at least one job",
		"send-signal TERM":              "send-signal: needs at least one job, as ID",
		"send-signal NOPE 5":            `send-signal: signal "NOPE" is not allowed; allowed: names such as TERM`,
		"send-signal TERM x":            `send-signal: job "x"`,
		"journal verify --journal=":     "it must not be empty",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			all := strings.Fields(args)
			if !strings.Contains(args, "--port") {
				all = append([]string{"--port", port}, all...)
			}
			got := jobctl{}.run(t, all...)
			if got.code != exit.Usage || got.out != "" || !strings.Contains(got.err, want) {
				t.Errorf("%+v, want exit code 2 and %q", got, want)
			}
		})
	}
}

// Words of the command line may be passwords: what people give a flag that takes none, or the way another program takes it.
func TestPasswordsOnTheCommandLineAreNotTold(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"--password Zq7SECRET status", "--password hunter status", "status password=Zq7SECRET", "password=Zq7SECRET", "-pZq7SECRET status",
		"-phunter status", "status --password Zq7SECRET", "status -- -pZq7SECRET", "Zq7SECRET",
		"journal --password Zq7SECRET", "--Zq7SECRET status", "journal verify --password Zq7SECRET",
		"--master=false -p hunter status",
	} {
		got := jobctl{}.run(t, append([]string{"--port", closedPort(t)}, strings.Fields(args)...)...)
		if got.code != exit.Usage || got.err == "" || strings.Contains(got.err, "SECRET") || strings.Contains(got.err, "hunter") {
			t.Errorf("%s: %+v, want exit code 2 and nothing of a password", args, got)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for args, wants := range map[string][]string{
		"--help":             {"usage: jobctl [flags] [@PROFILE] COMMAND", "list-targets", "send-signal SIG ID…", "journal COMMAND", "--password", "7080"},
		"-h":                 {"usage: jobctl [flags] [@PROFILE] COMMAND"},
		"run-manual --help":  {"usage: jobctl [flags] run-manual ID… | T:ID…"},
		"journal --help":     {"journal log [--journal DIR]", "journal show ID [--journal DIR]", "journal reapply"},
		"journal log --help": {"usage: jobctl [flags] journal log", "--follow", "--since", "concurrency-set"},
	} {
		got := jobctl{}.run(t, strings.Fields(args)...)
		if got.code != 0 || got.err != "" {
			t.Errorf("%s: exit code %d, stderr %q", args, got.code, got.err)
		}
		for _, want := range wants {
			check.Contains(t, got.out, want, "%s: no … in", args)
		}
	}
	if got := (jobctl{}).run(t, "--version"); got.code != 0 || strings.Count(got.out, ".") != 2 || strings.Count(got.out, "\n") != 1 {
		t.Errorf("--version: %+v", got)
	}
}

func TestConfigurationFiles(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	content := must.Get(os.ReadFile(filepath.Join("..", "..", "testdata", "configurations", "jobctl.conf")))(t)
	// The original's file, with a host that exists.
	content = bytes.Replace(content, []byte("192.168.0.8"), []byte("127.0.0.1"), 1)
	must.Do(t, os.WriteFile(filepath.Join(home, ".jobctl.conf"), content, 0o600))
	d := startDaemon(t, "s3cret", map[string]any{"poke": "ok"})
	jobctl{environ: []string{"HOME=" + home}}.expect(t, d, output{out: "ok\n"}, "poke", "a")
	jobctl{environ: []string{"HOME=" + t.TempDir(), "JOBCTL_MASTER=1", "JOBCTL_PASSWORD=s3cret"}}.expect(t, d, output{out: "ok\n"}, "poke", "a")
}

func TestShippedConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "packaging", "jobctl.conf")
	d := startDaemon(t, "", map[string]any{"poll": "ok"})
	jobctl{}.expect(t, d, output{out: "ok\n"}, "poll", "--config", path)
	content := must.Get(os.ReadFile(path))(t)
	for _, key := range []string{"master", "host", "port", "master_port", "password", "password_file", "log_level", "output", "precise", "timeout"} {
		check.Contains(t, string(content), key+" = ", "%s does not show the key %s", path, key)
	}
}

// jobctl links no driver of a database server.
func TestLinksNoDriver(t *testing.T) {
	t.Parallel()
	list := must.Get(exec.Command("go", "list", "-deps", ".").Output())(t)
	if !strings.Contains(string(list), "jobd/journal\n") || strings.Contains(string(list), "go-sql-driver/mysql") {
		t.Errorf("links:\n%s", list)
	}
}

// Wrong usage is told before anybody is asked: here nobody listens, and no folder is there.
func TestNobodyIsAskedAboutWrongUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"show":                         "journal show: needs a job, as ID",
		"show x":                       `journal show: job "x" is not allowed`,
		"log -n -5":                    `-n: "-5" is not allowed; allowed: a whole number of at least 0`,
		"state -n -1":                  `-n: "-1" is not allowed`,
		"state --at 2h --since 1h":     "--since is not before --at",
		"log --since 1h --until 2h":    "is not before --until",
		"export --since 1h --until 2h": "is not before --until",
	} {
		for _, from := range []string{"--port 1", "--journal " + t.TempDir() + "/none"} {
			words := append([]string{"journal"}, strings.Fields(args+" "+from)...)
			if got := (jobctl{}).run(t, words...); got.code != 2 || !strings.Contains(got.err, want) {
				t.Errorf("%q: %+v, want exit code 2 and %q", words, got, want)
			}
		}
	}
}

// Commands about jobs say alike what they need, and what they were given.
func TestCommandsAboutJobsSayWhatTheyNeed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"tail": "tail: needs a job, as ID or TARGET:ID", "show": "show: needs a job, as ID or TARGET:ID",
		"journal show": "journal show: needs a job, as ID", "tail 1 2": `tail: takes one job, got ["1" "2"]`,
		"show 1 1": `show: takes one job, got ["1" "1"]`, "journal show 1 2": `journal show: takes one job, got ["1" "2"]`,
		"why": "why: needs at least one job, as ID or TARGET:ID", "cancel": "cancel: needs at least one job, as ID or TARGET:ID",
		"wait": "wait: needs at least one job, as ID or TARGET:ID", "retry": "retry: needs at least one job, as ID or TARGET:ID",
	} {
		if got := (jobctl{}).run(t, strings.Fields(args)...); got.code != 2 || got.err != "jobctl: "+want+"\n" {
			t.Errorf("%s: %+v, want exit code 2 and %q", args, got, want)
		}
	}
}

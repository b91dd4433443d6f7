package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"jobd/cmd/internal/exit"
	"jobd/store/storetest/must"
)

// Wrong usage is told without asking anybody.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	port := closedPort(t)
	for args, want := range map[string]string{
		"journal":                       "a command is missing; --help lists them",
		"pol":                           "unknown command pol; the nearest known one is poll",
		"frobnicate":                    "unknown command in place 3 of the command line; --help lists all",
		"status --frobnicate":           "unknown flag in place 4 of the command line; --help lists all",
		"journal lag":                   "unknown command lag; the nearest known one is log",
		"status --targt x":              "unknown flag --targt; the nearest known one is --target",
		"--hots h status":               "unknown flag --hots; the nearest known one is --host",
		"poll --kind done":              "flag --kind is not for jobctl poll; --help tells which are",
		"status --port":                 "flag --port needs a value",
		"status --port=x":               `flag --port: port: "x" is not allowed; allowed is a whole number from 1 to 65535`,
		"status --output=xml":           `output: "xml" is not allowed; allowed is one of: table, json`,
		"status --timeout=soon":         `timeout: "soon" is not allowed`,
		"status --log-level=x":          `log_level: "x" is not allowed`,
		"status --host=":                `host: "" is not allowed`,
		"status --config=/no/such/file": "config /no/such/file: no such file",
		"status x":                      `status: takes no arguments`,
		"list-targets x":                "list-targets: takes no arguments",
		"--master list-targets":         "list-targets: only a worker knows this; leave --master away",
		"list-workers":                  "list-workers: only a master knows this; use --master, or list-targets for a worker",
		"--master list-workers x":       "list-workers: takes no arguments",
		"--master poll a":               "poll: only a worker knows this; leave --master away, or use poke",
		"poke a":                        "poke: only a master knows this",
		"--master poke":                 "poke: needs at least one target",
		"add-target a":                  "add-target: needs a target and a number",
		"add-target a 0":                `add-target: concurrency "0" is not allowed; allowed is a whole number of at least 1`,
		"add-target a many":             `concurrency "many"`,
		"--master add-target a 1":       "add-target: only a worker knows this",
		"set-target-concurrency a -1":   `concurrency "-1" is not allowed; allowed is a whole number of at least 1`,
		"set-target-concurrency a x":    `concurrency "x"`,
		"remove-target":                 "remove-target: needs one target",
		"remove-target a b":             "remove-target: needs one target",
		"--master remove-target a":      "remove-target: only a worker knows this",
		"run-manual":                    "run-manual: needs at least one job, as ID",
		"run-manual x":                  `run-manual: job "x" is not allowed; allowed is ID or TARGET:ID, where ID is a whole number of 64 bits other than 0`,
		"run-manual 0":                  `job "0"`,
		"run-manual 5 a:5":              "run-manual: job 5 is named twice, with different targets",
		"--master run-manual :5":        `job ":5"`,
		"--master run-manual a:":        `job "a:"`,
		"send-signal":                   "send-signal: needs a signal and at least one job",
		"send-signal TERM":              "send-signal: needs at least one job, as ID",
		"send-signal NOPE 5":            `send-signal: signal "NOPE" is not allowed; allowed are names such as TERM`,
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
			if !strings.Contains(got.out, want) {
				t.Errorf("%s: no %q in\n%s", args, want, got.out)
			}
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
		if !strings.Contains(string(content), key+" = ") {
			t.Errorf("%s does not show the key %s", path, key)
		}
	}
}

func TestDefaultPorts(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{"": workerPort, "--master": masterPort, "--master --port=5": 5} {
		set := newSet(nil, nil, nil)
		var c config
		c.register(set)
		must.Do(t, set.Parse(strings.Fields(args), nil, t.Output()))
		if c.validate(set); c.port != want {
			t.Errorf("%q: port %d, want %d", args, c.port, want)
		}
	}
}

func TestUnknownKeyInTheFileIsAWarning(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobctl.conf")
	must.Do(t, os.WriteFile(path, []byte("hots = h\n"), 0o600))
	d := startDaemon(t, "", map[string]any{"poll": "ok"})
	got := jobctl{}.run(t, "--port", d.port, "poll", "--config", path)
	if got.code != 0 || !strings.Contains(got.err, path+":1: unknown key hots is not used; the nearest known one is host") {
		t.Errorf("%+v", got)
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

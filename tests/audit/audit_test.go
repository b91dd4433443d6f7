package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) { harness.MainAtOnce(m, 4) }

// TestSessions plays the auditor's sessions of testdata: each command, and what it prints.
func TestSessions(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(harness.Program(t, "jobctl"))+":"+env.Getenv("PATH"))
			env.Setenv("TZ", "UTC")
			return writeWeek(env.WorkDir)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"replace": replace},
	})
}

// replace changes bytes of a file, wherever they stand: replace FILE OLD NEW. OLD must be there.
func replace(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	content := []byte(ts.ReadFile(args[0]))
	if !bytes.Contains(content, []byte(args[1])) {
		ts.Fatalf("%s does not contain %q", file, args[1])
	}
	ts.Check(os.Chmod(file, 0o600))
	ts.Check(os.WriteFile(file, bytes.ReplaceAll(content, []byte(args[1]), []byte(args[2])), 0o600))
}

// What clients ask for is in the history, with who asked, and so is what they were refused, and the configuration that was
// taken over; never a password.
func TestWhatWasAskedIsInTheHistory(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "node-1", "/bin/echo {id}", map[string]int{"mail": 1}).
		With(harness.Settings{"password": "s3cret", "always_allow_localhost": "true"})
	worker := settings.StartWorker(t)
	client := harness.Dial(t, worker.Addr)
	db.Insert(t, 1, "mail", "manual")
	db.Insert(t, 2, "mail", "done")
	client.Ask(t, "run-manual", map[string]any{"ids": []int{1, 7}})
	for kind, data := range map[string]map[string]any{
		"pause":                  {"targets": []string{"nobody"}},
		"continue":               {"targets": []string{"nobody"}},
		"add-target":             {"target": "mail", "concurrency": 1},
		"remove-target":          {"target": "gone"},
		"set-target-concurrency": {"target": "mail", "concurrency": 0},
		"run-manual":             {"ids": []int{2}},
	} {
		client.Ask(t, kind, data)
	}
	client.Ask(t, "run-manual", map[string]any{"ids": []string{"x"}})
	client.Ask(t, "send-signal", map[string]any{"jobs": map[string]int{"5": 15}})
	client.Ask(t, "send-signal", map[string]any{"jobs": map[string]int{"5": 0}}) // probes only

	changed := settings.With(harness.Settings{"password": "an0ther", "launcher": "/bin/true --job={id}"}, harness.Targets(map[string]int{"mail": 3, "print": 1}))
	reload := func(content, done string) {
		t.Helper()
		must.Do(t, os.WriteFile(worker.Config, []byte(content), 0o600))
		worker.Signal(t, syscall.SIGHUP)
		worker.AwaitSaid(t, done)
	}
	reload(changed.String(), "configuration was read again")
	reload(changed.With(harness.Settings{"prefetch": "s3cret-and-wrong"}).String(), "is refused; the old one")

	log := expect(t, 0, []string{
		`requested       jobs=1,7 by=127.0.0.1:`,
		`request=pause about="targets=[\"nobody\"]" reason="invalid target 'nobody'" by=127.0.0.1:`,
		`request=continue`, `request=add-target`, `reason="target 'mail' already added"`, `request=remove-target about="target=\"gone\""`,
		`request=set-target-concurrency`, `request=run-manual about="ids=[2]" reason="status = done != manual"`,
		`reason="all ids must be numbers, got string"`, `request=send-signal about="jobs={\"5\":15}" reason="nothing was signalled"`,
		`host=`, `launcher="/bin/echo {id}"`,
		fmt.Sprintf("digest=%x", sha256.Sum256([]byte(changed.String()))), `changed=launcher,password,targets.mail,targets.print`,
		`launcher="/bin/true --job={id}" by=SIGHUP`,
		`request=reload`, `reason="the configuration can't be taken over; the worker's log says why" by=SIGHUP`,
	}, worker.Addr, "journal", "log")
	check.Equal(t, strings.Count(log, "request=send-signal"), 1, "a probe is in the history: %s", log)
	for _, secret := range []string{"s3cret", "an0ther"} {
		if strings.Contains(log, secret) {
			t.Errorf("%q is in the history:\n%s", secret, log)
		}
	}
	if requested, accepted := strings.Index(log, " requested "), strings.Index(log, " accepted "); requested < 0 || requested > accepted {
		t.Errorf("the request does not stand before what was done:\n%s", log)
	}
}

// ctl runs jobctl against a daemon and gives what it printed.
func ctl(t *testing.T, daemon string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	host, port, err := net.SplitHostPort(daemon)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), append([]string{"--host", host, "--port", port, "--config", os.DevNull, "--timeout", "60"}, args...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// expect runs jobctl and looks for words in what it printed.
func expect(t *testing.T, code int, words []string, daemon string, args ...string) string {
	t.Helper()
	stdout, stderr, got := ctl(t, daemon, args...)
	for _, word := range words {
		if !strings.Contains(stdout+stderr, word) {
			t.Errorf("jobctl %s: no %q", strings.Join(args, " "), word)
		}
	}
	if t.Failed() || got != code {
		t.Fatalf("jobctl %s: exit code %d, want %d; stdout:\n%s\nstderr:\n%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	return stdout
}

// launcher fails for ids that 4 divides.
const launcher = `/bin/sh -c 'echo job $0; test $(( $0 % 4 )) != 0' {id}`

// start runs a worker that has done n jobs.
func start(t *testing.T, db *harness.Database, name, target string, first, n int, others ...harness.Settings) (*harness.Daemon, harness.Settings) {
	t.Helper()
	s := db.Worker(t, name, launcher, map[string]int{target: 2}).With(harness.Settings{"launcher_split": "shell"}).With(others...)
	db.Exec(t, "INSERT INTO jobs (id, target, time_created, status) SELECT n + ?, ?, UNIX_TIMESTAMP(), 'waiting' FROM "+harness.Numbers(n), first-1, target)
	worker := s.StartWorker(t)
	db.AwaitCount(t, n, "id BETWEEN ? AND ? AND status = 'done'", first, first+n-1)
	return worker, s
}

func TestThroughTheMaster(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	secret := harness.Settings{"password": "s3cret"}
	master := harness.StartMaster(t, secret)
	first, settings := start(t, db, "node-1", "mail", 1, 4, secret, harness.MasterOf(master))
	start(t, db, "node-2", "report", 11, 4, secret, harness.MasterOf(master))
	harness.AwaitWorkers(t, master, "s3cret", 2)
	t.Run("a password is needed", func(t *testing.T) {
		expect(t, 1, []string{"a password or token is needed"}, master.Addr, "--master", "journal", "log")
	})
	ask := func(code int, words []string, args ...string) string {
		t.Helper()
		config := filepath.Join(t.TempDir(), "jobctl.conf")
		must.Do(t, os.WriteFile(config, []byte("password = s3cret\nmaster = 1\n"), 0o600))
		return expect(t, code, words, master.Addr, append(args, "--config", config)...)
	}
	log := ask(0, []string{" node-1 ", " node-2 "}, "journal", "log")
	last := ""
	for line := range strings.Lines(log) {
		if stamp := line[:26]; stamp < last {
			t.Errorf("%s comes after %s: the events are not merged by time", stamp, last)
		} else {
			last = stamp
		}
	}
	ask(0, []string{"claimed by node-2", "the table now: status=done target=report result=ok"}, "journal", "show", "11")
	ask(0, []string{"mail    4", "report  4"}, "journal", "stats")
	ask(0, []string{"node-1  4", "node-2  12"}, "journal", "state")
	ask(0, []string{"node-1: verified", "node-2: verified"}, "journal", "verify")
	ask(0, nil, "journal", "diff")
	heads := filepath.Join(t.TempDir(), "heads")
	ask(0, nil, "journal", "anchor", "--out", heads)
	ask(0, []string{"anchors: 1 agree", "proven up to event "}, "journal", "verify", "--anchor", heads)
	ask(0, []string{"anchors: 1 agree"}, "journal", "verify", "--journal", settings["journal_dir"], "--anchor", heads) // of two workers

	// One that is away is named, and the others are heard.
	first.Kill(t)
	harness.AwaitWorkers(t, master, "s3cret", 1)
	log = ask(1, []string{" node-2 "}, "journal", "log")
	if strings.Contains(log, " node-1 ") {
		t.Errorf("a worker that is gone is heard:\n%s", log)
	}
	ask(1, []string{"node-2: verified"}, "journal", "verify")
	ask(0, []string{"history: not known, because some journals could not be read"}, "show", "1")
}

// following is a jobctl that follows, and what it tells.
type following struct {
	cmd   *exec.Cmd
	lines chan string
	errs  chan string
}

func follow(t *testing.T, addr string, args ...string) *following {
	t.Helper()
	_, port, _ := strings.Cut(addr, ":")
	f := &following{lines: make(chan string, 1000), errs: make(chan string, 1000)}
	f.cmd = exec.CommandContext(t.Context(), harness.Program(t, "jobctl"), slices.Concat([]string{"--config", os.DevNull, "--port", port, "journal", "log", "--follow", "--output", "json"}, args)...)
	for _, pipe := range []struct {
		open func() (io.ReadCloser, error)
		into chan string
	}{{f.cmd.StdoutPipe, f.lines}, {f.cmd.StderrPipe, f.errs}} {
		reader := must.Get(pipe.open())(t)
		go func() {
			defer close(pipe.into)
			for lines := bufio.NewScanner(reader); lines.Scan(); {
				pipe.into <- lines.Text()
			}
		}()
	}
	must.Do(t, f.cmd.Start())
	return f
}

// told waits for a line on stderr that has the words.
func (f *following) told(t *testing.T, words string) {
	t.Helper()
	late := time.After(harness.Patience)
	for {
		select {
		case line, more := <-f.errs:
			if !more {
				t.Fatalf("jobctl ended, and never said %q", words)
			}
			if strings.Contains(line, words) {
				return
			}
		case <-late:
			t.Fatalf("jobctl never said %q", words)
		}
	}
}

// sees waits until the events up to the one about a job's end were printed, and gives their numbers.
func (f *following) sees(t *testing.T, job int64) (numbers []uint64) {
	t.Helper()
	late := time.After(harness.Patience)
	for {
		select {
		case line := <-f.lines:
			var e struct {
				Seq  uint64
				Job  int64
				Kind string
			}
			must.Do(t, json.Unmarshal([]byte(line), &e), "%q", line)
			if numbers = append(numbers, e.Seq); e.Job == job && e.Kind == "done" {
				return numbers
			}
		case <-late:
			t.Fatalf("the end of job %d was never printed", job)
		}
	}
}

// A worker is killed while somebody follows its journal through the master, and is started again: jobctl says so, and goes on
// where it was. No event is missed and none comes twice. An interrupt ends it in order.
func TestFollowSurvivesTheWorker(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t)
	worker, settings := start(t, db, "node-1", "mail", 1, 1, harness.MasterOf(master))
	harness.AwaitWorkers(t, master, "", 1)
	f := follow(t, master.Addr, "--master")
	numbers := f.sees(t, 1)
	for id := int64(2); id <= 3; id++ {
		worker.Kill(t)
		f.told(t, "trying again")
		db.Insert(t, id, "mail", "waiting")
		worker = settings.StartWorker(t)
		f.told(t, "connected again")
		numbers = append(numbers, f.sees(t, id)...)
	}
	for i, number := range numbers {
		must.Equal(t, number, uint64(i+1), "event … came after %d others", i)
	}
	must.Do(t, f.cmd.Process.Signal(syscall.SIGINT))
	check.Do(t, f.cmd.Wait(), "interrupted")
}

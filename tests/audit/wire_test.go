package audit

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

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
	for id := first; id < first+n; id++ {
		db.Insert(t, int64(id), target, "waiting")
	}
	worker := s.StartWorker(t)
	for id := first; id < first+n; id++ {
		db.AwaitDone(t, int64(id))
	}
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
	ask(0, []string{"history: not known, as not all journals could be read"}, "show", "1")
}

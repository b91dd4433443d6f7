package lifecycle

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"jobd/exec/runner/proctest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// installed is a jobd of its own that a test may replace, as a package manager does: by a file
// that is renamed over it.
func installed(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobd")
	replace(t, path, harness.Program(t, "jobd"))
	return path
}

func replace(t *testing.T, path, by string) {
	t.Helper()
	if out, err := exec.Command("cp", by, path+".new").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must.Do(t, os.Rename(path+".new", path))
}

// After jobctl restart the same process runs another binary; its jobs were not interrupted, and
// what was claimed goes on.
func TestRestartWithAnotherBinary(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := harness.NewOracle(t, harness.Gate)
	binary := installed(t)
	settings := db.Worker(t, "worker", launcher.Command, map[string]int{"a": 2}).With(harness.Settings{"prefetch": "2"})
	worker := harness.LaunchBinary(t, binary, settings.Write(t), settings.Addr()).Ready(t)
	db.InsertMany(t, 4, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.AwaitStarts(t, 2)

	replace(t, binary, harness.Program(t, "jobd"))
	if out, err := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), ctlFlags(worker, "restart")...).CombinedOutput(); err != nil {
		t.Fatalf("jobctl restart: %v: %s", err, out)
	}
	check.Equal(t, must.Get(os.Readlink(worker.Proc("exe")))(t), binary, "the process runs")
	launcher.LetGo(t)
	db.AwaitCount(t, 4, "status = 'done' AND result = 'ok' AND stdout = CONCAT('out ', id, '\n')")
	launcher.ExpectOnce(t, 4)
	harness.VerifyJournal(t, settings)
	log, err := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), "--config=", "journal", "log", "--journal", settings["journal_dir"], "--kind", "requested").CombinedOutput()
	if err != nil || !strings.Contains(string(log), "request=restart by=127.0.0.1:") {
		t.Errorf("who asked for the restart is not in the journal: %v: %s", err, log)
	}
}

func ctlFlags(worker *harness.Daemon, words ...string) []string {
	host, port, _ := strings.Cut(worker.Addr, ":")
	return append([]string{"--config=", "--host", host, "--port", port}, words...)
}

// restartable is a worker with a job that runs, its binary and its settings.
type restartable struct {
	*harness.Daemon
	binary   string
	settings harness.Settings
	db       *harness.Database
	launcher harness.Oracle
}

func newRestartable(t *testing.T) restartable {
	t.Helper()
	r := restartable{binary: installed(t), db: harness.NewDatabase(t), launcher: harness.NewOracle(t, harness.Gate)}
	r.settings = r.db.Worker(t, "worker", r.launcher.Command, map[string]int{"a": 1})
	r.Daemon = harness.LaunchBinary(t, r.binary, r.settings.Write(t), r.settings.Addr()).Ready(t)
	r.db.InsertMany(t, 1, "a", "waiting")
	harness.Dial(t, r.Addr).Ask(t, "poll", nil)
	r.launcher.AwaitStarts(t, 1)
	return r
}

// configure writes the worker's file anew.
func (r restartable) configure(t *testing.T, settings harness.Settings) {
	t.Helper()
	must.Do(t, os.WriteFile(r.Config, []byte(settings.String()), 0o600))
}

func (r restartable) install(t *testing.T, script string) {
	t.Helper()
	broken := filepath.Join(t.TempDir(), "script")
	must.Do(t, os.WriteFile(broken, []byte(script), 0o755))
	replace(t, r.binary, broken)
}

func (r restartable) restart(t *testing.T) (code int, output string) {
	t.Helper()
	cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), ctlFlags(r.Daemon, "restart")...)
	out, _ := cmd.CombinedOutput() // the code tells
	return cmd.ProcessState.ExitCode(), string(out)
}

// started is when the process began, as it tells itself.
func started(t *testing.T, addr string) (ms int64) {
	t.Helper()
	var status struct{ StartedAt int64 }
	client := harness.Dial(t, addr)
	defer client.Close()
	client.Ask(t, "status", nil).Decode(t, &status)
	return status.StartedAt
}

// Where the next start would end, a restart is refused with the reason, and the worker goes on.
func TestRestartIsRefusedWhereAStartWouldEnd(t *testing.T) {
	t.Parallel()
	other := harness.FreePort(t)
	taken := harness.StartMaster(t, harness.Settings{"port": other})
	tests := map[string]struct {
		spoil func(t *testing.T, r restartable)
		want  []string
	}{
		"a wrong value": {func(t *testing.T, r restartable) {
			r.configure(t, r.settings.With(harness.Targets(map[string]int{"a": 0})))
		}, []string{"jobd.conf:", "targets.a", "at least 1"}},
		"no configuration": {func(t *testing.T, r restartable) {
			must.Do(t, os.Remove(r.Config))
		}, []string{"jobd.conf", "no such file"}},
		"a launcher that is missing": {func(t *testing.T, r restartable) {
			r.configure(t, r.settings.With(harness.Settings{"launcher": "/nowhere/launcher {id}"}))
		}, []string{"launcher", "/nowhere/launcher"}},
		"an address that is taken": {func(t *testing.T, r restartable) {
			r.configure(t, r.settings.With(harness.Settings{"port": other}))
		}, []string{"address " + taken.Addr, "in use"}},
		"another journal": {func(t *testing.T, r restartable) {
			r.configure(t, r.settings.With(harness.Settings{"journal_dir": t.TempDir()}))
		}, []string{"journal", "it is not the running worker's journal"}},
		"an account that is refused": {func(t *testing.T, r restartable) {
			r.configure(t, r.settings.With(harness.Settings{"mysql_password": "geheim"}))
		}, []string{"ccess denied"}},
		"an older version": {func(t *testing.T, r restartable) {
			r.install(t, "#!/bin/sh\necho 'jobd: unknown flag --check' >&2\nexit 2\n")
		}, []string{"not a report of jobd", "older version"}},
		"another program": {func(t *testing.T, r restartable) {
			r.install(t, "#!/bin/sh\necho hello\n")
		}, []string{"it is not jobd"}},
		"the master": {func(t *testing.T, r restartable) {
			replace(t, r.binary, harness.Program(t, "jobd-master"))
		}, []string{"it is not jobd"}},
		"a script without its interpreter": {func(t *testing.T, r restartable) {
			r.install(t, "#!/nowhere/sh\necho hello\n")
		}, []string{"not restarted", "no such file or directory"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRestartable(t)
			before := started(t, r.Addr)
			test.spoil(t, r)
			code, output := r.restart(t)
			check.Equal(t, code, 1, "jobctl restart: exit code")
			for _, want := range append(test.want, "not restarted: ") {
				check.Contains(t, output, want, "jobctl restart says … without")
			}
			if strings.Contains(output, "geheim") {
				t.Errorf("it tells a password: %s", output)
			}
			check.Equal(t, started(t, r.Addr), before, "it has started again all the same")
			r.launcher.LetGo(t)
			r.db.AwaitCount(t, 1, "status = 'done' AND result = 'ok'")
		})
	}
}

// jobctl is answered when the new process serves, wherever that listens.
func TestRestartIsAnsweredByTheNewProcess(t *testing.T) {
	t.Parallel()
	for name, port := range map[string]string{"there": "", "elsewhere": harness.FreePort(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRestartable(t)
			before, addr := started(t, r.Addr), r.Addr
			if port != "" {
				addr = "127.0.0.1:" + port
				r.configure(t, r.settings.With(harness.Settings{"port": port}))
			}
			code, output := r.restart(t)
			if code != 0 || !strings.Contains(output, fmt.Sprintf("process %d serves again", r.Pid)) || !strings.Contains(output, addr) {
				t.Errorf("jobctl restart: exit code %d: %s", code, output)
			}
			if after := started(t, addr); after <= before {
				t.Errorf("what serves at %s was started at %d, as before", addr, after)
			}
			r.launcher.LetGo(t)
			r.db.AwaitCount(t, 1, "status = 'done' AND result = 'ok'")
			r.launcher.ExpectOnce(t, 1)
		})
	}
}

var handover = harness.Settings{"on_stop": "handover", "shutdown_timeout": "100ms"}

// newFailing makes a launcher behind a gate, whose jobs fail with their ids as their exit codes.
func newFailing(t *testing.T) harness.Oracle {
	return harness.NewOracle(t, harness.Gate+"\necho \"err $id\" >&2; code=$id")
}

// A worker that hands over leaves its jobs running, however short shutdown_timeout is. The next
// start takes them up, with their true exit codes and all of their output.
func TestHandover(t *testing.T) {
	t.Parallel()
	launcher := newFailing(t)
	db, settings, worker := midway(t, launcher, handover)
	worker.Signal(t, syscall.SIGTERM)
	check.Equal(t, worker.ExitCode(t), 0, "exit code")
	db.AwaitCount(t, 2, "status = 'running'")
	db.AwaitCount(t, 2, "status = 'waiting' AND COALESCE(sig, '') = ''")

	settings.StartWorker(t)
	launcher.LetGo(t)
	db.AwaitCount(t, 4, "status = 'done' AND result = 'fail' AND return_code = id AND sig IS NULL"+
		" AND stdout = CONCAT('out ', id, '\n') AND stderr = CONCAT('err ', id, '\n')")
	launcher.ExpectOnce(t, 4)
	harness.VerifyJournal(t, settings)
}

// A worker that is to end at once does so, whether its runner kills the jobs or not.
func TestStopWhileTheRunnerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	launcher := harness.NewOracle(t, harness.Gate)
	db, settings, worker := midway(t, launcher, nil)
	runner := worker.Runner(t)
	freeze(t, runner)
	worker.Signal(t, syscall.SIGTERM)
	worker.AwaitSaid(t, "stopping")
	worker.Signal(t, syscall.SIGTERM)
	check.Equal(t, worker.ExitCode(t), 0, "exit code")
	check.Contains(t, worker.Output(), "jobs survived SIGKILL", "the log does not say")
	thaw(t, runner)
	settings.StartWorker(t)
	db.AwaitCount(t, 2, "status = 'done' AND result = 'fail' AND sig IS NOT NULL")
	launcher.LetGo(t)
	db.AwaitCount(t, 2, "status = 'done' AND result = 'ok'")
	launcher.ExpectOnce(t, 4)
	harness.VerifyJournal(t, settings)
}

// freeze stops a process until it is thawed, or the test ends.
func freeze(t *testing.T, pid int) {
	t.Helper()
	proctest.Stop(t, pid)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) // it may be gone
}

func thaw(t *testing.T, pid int) {
	t.Helper()
	must.Do(t, syscall.Kill(pid, syscall.SIGCONT))
}

// former is the commit of the build from which a running worker can be upgraded, and to which it can
// go back.
const former = "853d0e5"

// What runs the launcher's jobs as forks of a process that stays, and as turns of one.
const (
	formerFork = `open(my $in, "<&=", 3); open(my $out, ">&=", 4); select((select($out), $| = 1)[0]); print $out "ready\n";
while (my $line = <$in>) {
    my ($word, $id) = split " ", $line;
    last if $word eq "quit";
    my $pid = fork;
    if ($pid) { waitpid $pid, 0; print $out "ended $id $?\n"; next }
    setpgrp 0, 0;
    print $out "started $id $$\n";
    exec $ARGV[0], $id;
}
`
	formerPool = `open(my $in, "<&=", 3); open(my $out, ">&=", 4); select((select($out), $| = 1)[0]); print $out "ready\n";
while (my $line = <$in>) {
    my ($word, $id) = split " ", $line;
    last if $word eq "quit";
    print $out "started $id\n";
    system $ARGV[0], $id;
    print $out "exit $id " . ($? >> 8) . "\n";
}
`
)

// A worker that is replaced by one of the former build, or the other way round, hands over, or is
// killed: its jobs run on in the runner that has them, whatever runs them, and end with their true exit
// codes and all of their output; what waits is run once, by the new worker. Both builds' jobctl read
// the same in the journal that both have written.
func TestUpgradeAndWayBack(t *testing.T) {
	t.Parallel()
	before, now := buildFormer(t), map[string]string{"jobd": harness.Program(t, "jobd"), "jobctl": harness.Program(t, "jobctl")}
	for name, test := range map[string]struct {
		from, to map[string]string
		killed   bool
	}{
		"upgrade of one that was killed": {before, now, true},
		"way back":                       {now, before, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := harness.NewDatabase(t)
			launcher := newFailing(t)
			settings := db.Worker(t, "worker", launcher.Command, map[string]int{"process": 2, "fork": 2, "pool": 2, "manual": 1}).
				With(harness.Settings{"prefetch": "2"}, handover)
			for target, loop := range map[string]string{"fork": formerFork, "pool": formerPool} {
				file := filepath.Join(t.TempDir(), target+".pl")
				must.Do(t, os.WriteFile(file, []byte(loop), 0o644))
				settings = settings.With(harness.Terms(target, harness.Settings{"launcher_mode": target, "launcher": "/usr/bin/perl " + file + " " + launcher.Script}))
			}
			config := settings.Write(t)
			worker := harness.LaunchBinary(t, test.from["jobd"], config, settings.Addr()).Ready(t)
			for id := range int64(12) {
				db.Insert(t, id+1, []string{"process", "fork", "pool"}[id%3], "waiting")
			}
			harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
			db.Insert(t, 13, "manual", "manual")
			harness.Dial(t, worker.Addr).Request(t, "run-manual", map[string]any{"ids": []int{13}})
			launcher.AwaitStarts(t, 7)
			db.AwaitCount(t, 7, "status = 'running'")
			runner := worker.Runner(t)
			if test.killed {
				worker.Kill(t)
			} else {
				worker.Signal(t, syscall.SIGTERM)
				check.Equal(t, worker.ExitCode(t), 0, "exit code")
			}
			next := harness.LaunchBinary(t, test.to["jobd"], config, settings.Addr()).Ready(t)
			check.Do(t, syscall.Kill(runner, 0), "the runner of the worker before is gone")
			launcher.LetGo(t)
			for id := range int64(6) { // and those that come later
				db.Insert(t, 14+id, []string{"process", "fork", "pool"}[id%3], "waiting")
			}
			harness.Dial(t, next.Addr).Ask(t, "poll", nil)
			db.AwaitCount(t, 19, "status = 'done' AND result = 'fail' AND return_code = id AND sig IS NULL"+
				" AND stdout = CONCAT('out ', id, '\n') AND stderr = CONCAT('err ', id, '\n')")
			launcher.ExpectOnce(t, 19)
			next.Signal(t, syscall.SIGTERM)
			check.Equal(t, next.ExitCode(t), 0, "exit code … of the next worker")
			harness.VerifyJournal(t, settings)
			for _, command := range []string{"log", "state", "verify", "export"} {
				read := func(build map[string]string) string {
					out, err := exec.Command(build["jobctl"], "--config=", "journal", command, "--journal", settings["journal_dir"]).CombinedOutput()
					return fmt.Sprintf("%s%v", out, err)
				}
				was, is := read(before), read(now)
				switch command {
				case "export": // what the former one can't know it leaves out
					is = usage.ReplaceAllString(is, "")
				case "log": // each tells the fields of an event in its own words
					was, is = fields.ReplaceAllString(was, "$1"), fields.ReplaceAllString(is, "$1")
				}
				if was != is || !strings.HasSuffix(is, "<nil>") {
					t.Errorf("journal %s of the former build:\n%s\nof this one:\n%s", command, was, is)
				}
			}
		})
	}
}

// usage is what the end of a job tells of what it used, as it is exported.
var usage = regexp.MustCompile(`,"(cpu|memory)":\d+`)

// fields are those of an event in a line of journal log, behind its time, number, job and kind.
var fields = regexp.MustCompile(`(?m)^(.{26} +\d+ +(?:worker|job -?\d+) +\S+).*$`)

// buildFormer builds the former build's worker and jobctl.
func buildFormer(t *testing.T) map[string]string {
	t.Helper()
	tree := exec.Command("git", "-C", harness.Top(), "archive", former)
	var archive, problem bytes.Buffer
	tree.Stdout, tree.Stderr = &archive, &problem
	if err := tree.Run(); err != nil {
		if _, missing := os.Stat(filepath.Join(harness.Top(), ".git")); missing != nil {
			t.Skip("this is no checkout: there is no history to build the former version from")
		}
		t.Fatalf("the former build, %s, is not in this checkout's history (a shallow clone?): %v: %s", former, err, &problem)
	}
	dir := t.TempDir()
	unpack := exec.Command("tar", "-x", "-C", dir)
	unpack.Stdin = &archive
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v: %s", former, err, out)
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", dir, "./cmd/jobd", "./cmd/jobctl")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", former, err, out)
	}
	return map[string]string{"jobd": filepath.Join(dir, "jobd"), "jobctl": filepath.Join(dir, "jobctl")}
}

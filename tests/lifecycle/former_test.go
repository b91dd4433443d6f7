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

	"jobd/tests/harness"
)

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
		"upgrade": {before, now, false}, "upgrade of one that was killed": {before, now, true},
		"way back": {now, before, false}, "way back of one that was killed": {now, before, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := harness.NewDatabase(t)
			launcher := newGated(t)
			launcher.then(t, `echo "err $1" >&2; exit "$1"`)
			script := strings.TrimSuffix(launcher.command, " {id}")
			settings := db.Worker(t, "worker", launcher.command, map[string]int{"process": 2, "fork": 2, "pool": 2, "manual": 1}).
				With(harness.Settings{"prefetch": "2"}, handover)
			for target, loop := range map[string]string{"fork": formerFork, "pool": formerPool} {
				file := filepath.Join(t.TempDir(), target+".pl")
				if err := os.WriteFile(file, []byte(loop), 0o644); err != nil {
					t.Fatal(err)
				}
				settings = settings.With(harness.Terms(target, harness.Settings{"launcher_mode": target, "launcher": "/usr/bin/perl " + file + " " + script}))
			}
			config := settings.Write(t)
			worker := harness.LaunchBinary(t, test.from["jobd"], config, settings.Addr()).Ready(t)
			for id := range int64(12) {
				db.Insert(t, id+1, []string{"process", "fork", "pool"}[id%3], "waiting")
			}
			harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
			db.Insert(t, 13, "manual", "manual")
			harness.Dial(t, worker.Addr).Request(t, "run-manual", map[string]any{"ids": []int{13}})
			launcher.awaitStarts(t, 7)
			db.AwaitCount(t, 7, "status = 'running'")
			runner := worker.Runner(t)
			if test.killed {
				worker.Kill(t)
			} else {
				worker.Signal(t, syscall.SIGTERM)
				if code := worker.ExitCode(t); code != 0 {
					t.Errorf("exit code %d, want 0", code)
				}
			}
			next := harness.LaunchBinary(t, test.to["jobd"], config, settings.Addr()).Ready(t)
			if err := syscall.Kill(runner, 0); err != nil {
				t.Errorf("the runner of the worker before is gone: %v", err)
			}
			launcher.open(t)
			for id := range int64(6) { // and those that come later
				db.Insert(t, 14+id, []string{"process", "fork", "pool"}[id%3], "waiting")
			}
			harness.Dial(t, next.Addr).Ask(t, "poll", nil)
			db.AwaitCount(t, 19, "status = 'done' AND result = 'fail' AND return_code = id AND sig IS NULL"+
				" AND stdout = CONCAT('out ', id, '\n') AND stderr = CONCAT('err ', id, '\n')")
			expectOnce(t, launcher, 19)
			next.Signal(t, syscall.SIGTERM)
			if code := next.ExitCode(t); code != 0 {
				t.Errorf("exit code %d of the next worker, want 0", code)
			}
			verifyJournal(t, settings)
			for _, command := range []string{"log", "state", "verify", "export"} {
				read := func(build map[string]string) string {
					out, err := exec.Command(build["jobctl"], "--config=", "journal", command, "--journal", settings["journal_dir"]).CombinedOutput()
					return fmt.Sprintf("%s%v", out, err)
				}
				was, is := read(before), read(now)
				if command == "export" { // what the former one can't know it leaves out
					is = usage.ReplaceAllString(is, "")
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

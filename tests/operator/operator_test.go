package operator

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 4) }

// ran is what a run of jobctl left behind.
type ran struct {
	stdout, stderr string
	code           int
}

// arguments reach a daemon, and nobody's configuration.
func arguments(t *testing.T, d *harness.Daemon, args ...string) []string {
	t.Helper()
	host, port, err := net.SplitHostPort(d.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"--host", host, "--port", port, "--config", os.DevNull}, args...)
}

func jobctl(t *testing.T, d *harness.Daemon, args ...string) ran {
	t.Helper()
	cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), arguments(t, d, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return ran{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// Through a master all workers restart, one after the other; what was set by hand
// is as their files say, and the command tells.
func TestTheWholeFleetRestarts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if got := s.jobctl(t, "set-target-concurrency a 7 --yes"); got.code != 0 || got.stdout != "worker node-1: target a has 7 slots\n" {
		t.Fatalf("%+v", got)
	}
	if got := s.jobctl(t, "status"); !strings.Contains(got.stdout, "\ntarget a has 7 slots until the next reload or restart: the configuration says 2 (on node-1)\n") {
		t.Errorf("%+v", got)
	}
	if got := s.jobctl(t, "pause b"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	got := s.jobctl(t, "restart --all --yes")
	lines := strings.Split(got.stdout, "\n")
	if got.code != 0 || len(lines) != 5 ||
		!strings.HasPrefix(lines[0], "worker node-1: process ") || lines[1] != "  target a: 7 slots → 2, as the file says" ||
		!strings.HasPrefix(lines[2], "worker node-2: process ") || lines[3] != "  target b was paused, it is not now" {
		t.Errorf("%+v", got)
	}
	s.run(t, "b", 1)
	s.run(t, "a", 2)
	if got := s.jobctl(t, "journal log --kind requested"); strings.Count(got.stdout, "request=restart") != 2 {
		t.Errorf("%+v", got)
	}
}

// A launcher that never gets ready stops the claims of its target, and is told with what it said; no
// row is touched. When it is mended, all go on by itself.
func TestALauncherThatNeverGetsReady(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := harness.Script(t, "echo Class Application not found >&2; exit 3")
	worker := db.Worker(t, "node-1", "/bin/sh -c true {id}", map[string]int{"mail": 2, "other": 1}).With(harness.Settings{
		"[target mail] launcher": launcher, "[target mail] launcher_mode": "pool",
	}).StartWorker(t)
	db.Insert(t, 1, "mail", "waiting")
	db.Insert(t, 2, "other", "waiting")
	jobctl(t, worker, "poll")
	db.AwaitDone(t, 2)
	harness.Until(t, func() string {
		page := jobctl(t, worker, "status").stdout
		if !strings.Contains(page, "\nno job of target mail can be started since ") || !strings.Contains(page, "exit code 3") {
			return "status does not say why: " + page
		}
		return ""
	})
	check.Contains(t, jobctl(t, worker, "why", "1").stdout, "no process gets ready for its jobs", "why says")
	db.AwaitStatus(t, 1, "waiting")
	if got := jobctl(t, worker, "health"); got.code != 1 || !strings.Contains(got.stdout, "no job of target mail can be started for ") {
		t.Errorf("health: %+v", got)
	}
	const mended = `echo ready >&4
while read word job rest <&3; do
	[ "$word" = run ] || exit 0
	echo started $job >&4; echo done by $$; echo exit $job 0 >&4
done`
	must.Do(t, os.Rename(harness.Script(t, mended), launcher))
	if row := db.AwaitDone(t, 1); !strings.HasPrefix(harness.Text(row.Stdout), "done by ") {
		t.Errorf("the row: %s", row)
	}
	if got := jobctl(t, worker, "recycle", "other"); got.code != 1 || !strings.Contains(got.stderr, "target 'other' has no pool processes: its launcher_mode is not fork or pool") {
		t.Errorf("recycle of a target without: %+v", got)
	}
}

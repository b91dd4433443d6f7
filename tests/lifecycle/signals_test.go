package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 4) }

// gated is a launcher whose jobs append to the oracle file when they start, and end when
// the test opens the gate.
type gated struct{ oracle, gate, command string }

func newGated(t *testing.T) gated {
	dir := t.TempDir()
	g := gated{oracle: filepath.Join(dir, "oracle"), gate: filepath.Join(dir, "gate")}
	g.command = harness.Script(t, fmt.Sprintf( // without its folder, which goes with the test, no job stays
		`echo "$1" >> %s; while [ -d %s ] && [ ! -e %s ]; do sleep 0.2; done; echo "out $1"`, g.oracle, dir, g.gate)) + " {id}"
	return g
}

// then makes the jobs run more, behind the gate.
func (g *gated) then(t *testing.T, script string) {
	g.command = harness.Script(t, strings.Replace(g.command, "{id}", `"$1"`, 1)+"\n"+script) + " {id}"
}

func (g gated) open(t *testing.T) { harness.Touch(t, g.gate) }

// starts tells how often each job was started.
func (g gated) starts(t *testing.T) map[string]int {
	t.Helper()
	content, err := os.ReadFile(g.oracle)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	starts := map[string]int{}
	for _, id := range strings.Fields(string(content)) {
		starts[id]++
	}
	return starts
}

func (g gated) awaitStarts(t *testing.T, n int) {
	t.Helper()
	harness.Until(t, func() string {
		if starts := g.starts(t); len(starts) != n {
			return fmt.Sprintf("%d jobs were started, not %d", len(starts), n)
		}
		return ""
	})
}

// Two jobs run and two more are claimed when the worker is told to stop: the first two
// end in peace, the others go back as they were, and nothing new is claimed.
func TestSIGTERMDrains(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := newGated(t)
	worker := db.Worker(t, "worker", launcher.command, map[string]int{"a": 2}).
		With(harness.Settings{"prefetch": "2"}).StartWorker(t)
	db.InsertMany(t, 6, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.awaitStarts(t, 2)
	db.AwaitCount(t, 2, "status = 'accepted'")

	worker.Signal(t, syscall.SIGTERM)
	db.AwaitCount(t, 4, "status = 'waiting' AND COALESCE(sig, '') = ''")
	if !worker.Running() {
		t.Fatal("it did not wait for the jobs that run")
	}
	launcher.open(t)
	if code := worker.ExitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if done := db.Count(t, "status = 'done' AND result = 'ok' AND stdout = CONCAT('out ', id, '\n')"); done != 2 {
		t.Errorf("%d jobs are done, want 2", done)
	}
	if starts := launcher.starts(t); len(starts) != 2 {
		t.Errorf("started: %v, want two jobs", starts)
	}
}

// A second SIGTERM does not wait for a job that has all the time in the world and
// heeds no signal; the job is not forgotten, and not run again.
func TestSecondSIGTERM(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := newGated(t)
	stubborn := harness.Script(t, fmt.Sprintf("trap '' TERM\nexec %s", strings.Replace(launcher.command, "{id}", `"$1"`, 1)))
	settings := db.Worker(t, "worker", stubborn+" {id}", map[string]int{"a": 1}).
		With(harness.Settings{"shutdown_timeout": "0"})
	worker := settings.StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.awaitStarts(t, 1)
	worker.Signal(t, syscall.SIGTERM)
	harness.Until(t, func() string {
		if !strings.Contains(worker.Output(), "stopping") {
			return "it does not say that it stops"
		}
		return ""
	})
	worker.Signal(t, syscall.SIGTERM)
	worker.ExitCode(t)
	launcher.open(t)
	settings.StartWorker(t)
	if row := db.AwaitDone(t, 1); harness.Text(row.Result) != "fail" && !isRight(row, 1) {
		t.Errorf("the row says %s", row)
	}
	expectOnce(t, launcher, 1)
}

func TestSIGHUPReadsTheFileAgain(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "worker", "/bin/echo old {id}", map[string]int{"a": 1, "gone": 1})
	worker := settings.StartWorker(t)
	client := harness.Dial(t, worker.Addr)
	if got, want := targets(t, client), "map[a:1 gone:1]"; got != want {
		t.Fatalf("targets %s, want %s", got, want)
	}

	changed := settings.Without("[targets] gone").
		With(harness.Settings{"launcher": "/bin/echo new {id}"}, harness.Targets(map[string]int{"a": 4, "b": 2}))
	must.Do(t, os.WriteFile(worker.Config, []byte(changed.String()), 0o600))
	worker.Signal(t, syscall.SIGHUP)
	harness.Until(t, func() string {
		if got, want := targets(t, client), "map[a:4 b:2]"; got != want {
			return fmt.Sprintf("targets %s, want %s", got, want)
		}
		return ""
	})
	db.Insert(t, 1, "b", "waiting")
	client.Ask(t, "poll", nil)
	if row := db.AwaitDone(t, 1); harness.Text(row.Stdout) != "new 1\n" {
		t.Errorf("the old launcher ran: %s", row)
	}
}

// targets is each target's concurrency, as the worker tells it.
func targets(t *testing.T, client *harness.Wire) string {
	t.Helper()
	var status struct {
		Targets map[string]struct{ Concurrency int }
	}
	client.Ask(t, "status", nil).Decode(t, &status)
	concurrency := map[string]int{}
	for name, target := range status.Targets {
		concurrency[name] = target.Concurrency
	}
	return fmt.Sprint(concurrency)
}

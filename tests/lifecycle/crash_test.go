package lifecycle

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// midway starts a worker and leaves it with two jobs that run, and two that are
// claimed and wait for a slot.
func midway(t *testing.T, launcher harness.Oracle, others ...harness.Settings) (*harness.Database, harness.Settings, *harness.Daemon) {
	t.Helper()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "worker", launcher.Command, map[string]int{"a": 2}).
		With(harness.Settings{"prefetch": "2"}).With(others...)
	worker := settings.StartWorker(t)
	db.InsertMany(t, 4, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.AwaitStarts(t, 2)
	db.AwaitCount(t, 2, "status = 'accepted'")
	db.AwaitCount(t, 2, "status = 'running'")
	return db, settings, worker
}

// isRight tells whether the row has the true outcome of a job of the gated launcher.
func isRight(row harness.Row, id int64) bool {
	return harness.Text(row.Result) == "ok" && harness.Text(row.Stdout) == fmt.Sprintf("out %d\n", id)
}

// The worker comes up without its database, serves, and polls when the
// database is there: nobody has to ask again.
func TestDatabaseAwayAtStart(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := harness.NewOracle(t, harness.Gate)
	launcher.LetGo(t)
	db.InsertMany(t, 3, "a", "waiting")
	link := harness.NewLink(t, db.Addr)
	link.Away()
	worker := db.Worker(t, "worker", launcher.Command, map[string]int{"a": 2}).With(link.ToDatabase()).StartWorker(t)
	client := harness.Dial(t, worker.Addr)
	response := client.Ask(t, "poll", nil)
	check.Equal(t, response.Error, "", "poll is refused")
	check.Equal(t, targets(t, client), "map[a:2]", "targets")
	link.Back()
	db.AwaitCount(t, 3, "status = 'done' AND result = 'ok'")
}

// A job ends while the database is away: its client hears the truth from the journal, and the table later.
func TestResultWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := harness.NewOracle(t, harness.Gate)
	link := harness.NewLink(t, db.Addr)
	worker := db.Worker(t, "worker", launcher.Command, map[string]int{"a": 2}).With(link.ToDatabase()).StartWorker(t)
	db.Insert(t, 1, "a", "manual")
	client := harness.Dial(t, worker.Addr)
	client.Request(t, "run-manual", map[string]any{"ids": []int{1}})
	launcher.AwaitStarts(t, 1)
	link.Away()
	launcher.LetGo(t)

	response, _ := client.Answer(t)
	var answer harness.Jobs
	response.Decode(t, &answer)
	if job := answer.Jobs["1"]; job.Result != "ok" || job.Stdout != "out 1\n" {
		t.Errorf("the client hears %s", job)
	}
	if row := db.Row(t, 1); row.Status != "running" {
		t.Errorf("the row was reached over a link that is cut: %s", row)
	}
	link.Back()
	if row := db.AwaitDone(t, 1); harness.Text(row.Result) != "ok" || harness.Text(row.Stdout) != "out 1\n" {
		t.Errorf("the row says %s", row)
	}
}

// With launch_offline = run, jobs that are claimed already start on the journal alone.
func TestLaunchOffline(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := harness.NewOracle(t, harness.Gate)
	link := harness.NewLink(t, db.Addr)
	worker := db.Worker(t, "worker", launcher.Command, map[string]int{"a": 1}).
		With(link.ToDatabase(), harness.Settings{"launch_offline": "run", "prefetch": "1"}).StartWorker(t)
	db.InsertMany(t, 2, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.AwaitStarts(t, 1)
	db.AwaitCount(t, 1, "status = 'accepted'")
	link.Away()
	launcher.LetGo(t)
	launcher.AwaitStarts(t, 2)
	link.Back()
	db.AwaitCount(t, 2, "status = 'done' AND result = 'ok'")
}

// A launcher of one target has what it does not say from the common one: command, folder and
// variables each by itself. What is read again on SIGHUP holds for the jobs that start then.
func TestLaunchersOfTargets(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	common, own := t.TempDir(), t.TempDir()
	says := func(word string) string {
		return harness.Script(t, fmt.Sprintf(`echo "%s $1 in $(pwd) with $A $B"`, word)) + " {id}"
	}
	settings := db.Worker(t, "worker", says("common"), map[string]int{"a": 1, "b": 1, "c d": 1, "e": 1}).With(harness.Settings{
		"launcher.cwd": common, "launcher.env.A": "a1", "launcher.env.B": "b1",
		"target.b.launcher": says("own"), "target.c d.launcher.cwd": own, "target.e.launcher.env.B": "b2",
	})
	worker := settings.StartWorker(t)
	client := harness.Dial(t, worker.Addr)
	id := int64(0)
	expect := func(target, want string) {
		t.Helper()
		id++
		db.Insert(t, id, target, "waiting")
		client.Ask(t, "poll", nil)
		want = strings.Replace(want, "ID", fmt.Sprint(id), 1) + "\n"
		row := db.AwaitDone(t, id)
		check.Equal(t, harness.Text(row.Stdout), want, "target %s: %s", target, row)
	}
	expect("a", "common ID in "+common+" with a1 b1")
	expect("b", "own ID in "+common+" with a1 b1")
	expect("c d", "common ID in "+own+" with a1 b1")
	expect("e", "common ID in "+common+" with a1 b2")

	changed := settings.Without("target.b.launcher").With(harness.Settings{"target.a.launcher": says("new"), "launcher.env.A": "a2"})
	must.Do(t, os.WriteFile(worker.Config, []byte(changed.String()), 0o600))
	worker.Signal(t, syscall.SIGHUP)
	awaitReadAgain(t, worker)
	expect("a", "new ID in "+common+" with a2 b1")
	expect("b", "common ID in "+common+" with a2 b1")
	expect("e", "common ID in "+common+" with a2 b2")
}

func awaitReadAgain(t *testing.T, worker *harness.Daemon) {
	t.Helper()
	worker.AwaitSaid(t, "configuration was read again")
}

package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/journal/replay"
	"jobd/journal/verify"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// midway starts a worker and leaves it with two jobs that run, and two that are
// claimed and wait for a slot.
func midway(t *testing.T, launcher gated, others ...harness.Settings) (*harness.Database, harness.Settings, *harness.Daemon) {
	t.Helper()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "worker", launcher.command, map[string]int{"a": 2}).
		With(harness.Settings{"prefetch": "2"}).With(others...)
	worker := settings.StartWorker(t)
	db.InsertMany(t, 4, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.AwaitStarts(t, 2)
	db.AwaitCount(t, 2, "status = 'accepted'")
	db.AwaitCount(t, 2, "status = 'running'")
	return db, settings, worker
}

// The worker alone is killed: its jobs run on, and what became of them is known
// when it is back. The others run then.
func TestKilledWorkerLosesNothing(t *testing.T) {
	t.Parallel()
	launcher := newGated(t)
	db, settings, worker := midway(t, launcher)
	worker.Kill(t)
	launcher.open(t)
	settings.StartWorker(t)
	db.AwaitCount(t, 4, "status = 'done'")
	for id := range int64(4) {
		if row := db.Row(t, id+1); !isRight(row, id+1) {
			t.Errorf("job %d: %s", id+1, row)
		}
	}
	launcher.ExpectOnce(t, 4)
	verifyJournal(t, settings)
}

// Everything is killed: nobody knows how the jobs that ran would have ended, so
// that is what their rows say. They do not run again; the others run.
func TestCrashIsReported(t *testing.T) {
	t.Parallel()
	launcher := newGated(t)
	db, settings, worker := midway(t, launcher)
	ran := launcher.Starts(t)
	worker.Crash(t)
	launcher.open(t)
	settings.StartWorker(t)
	db.AwaitCount(t, 4, "status = 'done'")
	for id := range int64(4) {
		row, wasRunning := db.Row(t, id+1), ran[fmt.Sprint(id+1)] > 0
		if wasRunning && !isReported(row) || !wasRunning && !isRight(row, id+1) {
			t.Errorf("job %d, which ran when all was killed: %t: %s", id+1, wasRunning, row)
		}
	}
	launcher.ExpectOnce(t, 4)
	verifyJournal(t, settings)
}

// isRight tells whether the row has the true outcome of a job of the gated launcher.
func isRight(row harness.Row, id int64) bool {
	return harness.Text(row.Result) == "ok" && harness.Text(row.Stdout) == fmt.Sprintf("out %d\n", id)
}

// isReported tells whether the row says that nobody knows how the job ended.
func isReported(row harness.Row) bool {
	return harness.Text(row.Result) == "fail" && row.Code == nil && strings.Contains(harness.Text(row.Stderr), "outcome unknown")
}

// verifyJournal reads the worker's journal from its beginning: sequence, chain and transitions.
func verifyJournal(t *testing.T, settings harness.Settings) {
	t.Helper()
	reader := must.Get(replay.Open(settings["journal_dir"]))(t)
	must.Get(verify.Audit(t.Context(), reader.Folder(), nil, nil))(t)
}

// The worker comes up without its database, serves, and polls when the
// database is there: nobody has to ask again.
func TestDatabaseAwayAtStart(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := newGated(t)
	launcher.open(t)
	db.InsertMany(t, 3, "a", "waiting")
	link := harness.NewLink(t, db.Addr)
	link.Away()
	worker := db.Worker(t, "worker", launcher.command, map[string]int{"a": 2}).With(link.ToDatabase()).StartWorker(t)
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
	launcher := newGated(t)
	link := harness.NewLink(t, db.Addr)
	worker := db.Worker(t, "worker", launcher.command, map[string]int{"a": 2}).With(link.ToDatabase()).StartWorker(t)
	db.Insert(t, 1, "a", "manual")
	client := harness.Dial(t, worker.Addr)
	client.Request(t, "run-manual", map[string]any{"ids": []int{1}})
	launcher.AwaitStarts(t, 1)
	link.Away()
	launcher.open(t)

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
	launcher := newGated(t)
	link := harness.NewLink(t, db.Addr)
	worker := db.Worker(t, "worker", launcher.command, map[string]int{"a": 1}).
		With(link.ToDatabase(), harness.Settings{"launch_offline": "run", "prefetch": "1"}).StartWorker(t)
	db.InsertMany(t, 2, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.AwaitStarts(t, 1)
	db.AwaitCount(t, 1, "status = 'accepted'")
	link.Away()
	launcher.open(t)
	launcher.AwaitStarts(t, 2)
	link.Back()
	db.AwaitCount(t, 2, "status = 'done' AND result = 'ok'")
}

// A worker that starts before its master, and one with two masters.
func TestWorkerRegistersWithEveryMaster(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	first, late := harness.FreePort(t), harness.FreePort(t)
	masters := []*harness.Daemon{harness.StartMaster(t, harness.Settings{"port": first})}
	db.Worker(t, "worker", "/bin/echo {id}", map[string]int{"a": 1}).
		With(harness.MasterOf(masters[0]), harness.Settings{"master_host": "127.0.0.1, 127.0.0.1:" + late}).StartWorker(t)
	masters = append(masters, harness.StartMaster(t, harness.Settings{"port": late}))
	for i, master := range masters {
		harness.AwaitWorkers(t, master, "", 1)
		id := int64(i + 1)
		db.Insert(t, id, "a", "waiting")
		harness.Dial(t, master.Addr).Ask(t, "poke", map[string]any{"targets": []string{"a"}})
		db.AwaitDone(t, id)
	}
}

// What is poked while a restarted master knows no worker yet reaches all of them, not only the first that registers.
func TestPokeAfterAMastersRestartReachesEveryWorker(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	port := harness.Settings{"port": harness.FreePort(t)}
	master := harness.StartMaster(t, port)
	const workers = 3
	ran := make([]string, workers)
	for i := range ran {
		ran[i] = filepath.Join(t.TempDir(), "ran")
		launcher := harness.Script(t, "sleep 0.2; echo $1 >> "+ran[i])
		db.Worker(t, fmt.Sprint("worker", i), launcher+" {id}", map[string]int{"a": 1}).
			With(harness.MasterOf(master), harness.Settings{"poll_interval": "0"}).StartWorker(t)
	}
	harness.AwaitWorkers(t, master, "", workers)
	master.Kill(t)
	db.InsertMany(t, 30, "a", "waiting")

	master = harness.StartMaster(t, port)
	harness.Dial(t, master.Addr).Ask(t, "poke", map[string]any{"targets": []string{"a"}})
	db.AwaitCount(t, 30, "status = 'done'")
	for i, file := range ran {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("worker%d did none of 30 jobs", i)
		}
	}
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
	harness.Until(t, func() string {
		if !strings.Contains(worker.Output(), "configuration was read again") {
			return "not read again: " + worker.Output()
		}
		return ""
	})
}

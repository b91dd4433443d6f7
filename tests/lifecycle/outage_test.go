package lifecycle

import (
	"testing"

	"jobd/tests/harness"
)

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
	if response := client.Ask(t, "poll", nil); response.Error != "" {
		t.Errorf("poll is refused: %s", response.Error)
	}
	if got, want := targets(t, client), "map[a:2]"; got != want {
		t.Errorf("targets %s, want %s", got, want)
	}
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
	launcher.awaitStarts(t, 1)
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
	launcher.awaitStarts(t, 1)
	db.AwaitCount(t, 1, "status = 'accepted'")
	link.Away()
	launcher.open(t)
	launcher.awaitStarts(t, 2)
	link.Back()
	db.AwaitCount(t, 2, "status = 'done' AND result = 'ok'")
}

// expectOnce reads the oracle: n jobs were started, each once.
func expectOnce(t *testing.T, launcher gated, n int) {
	t.Helper()
	starts := launcher.starts(t)
	if len(starts) != n {
		t.Errorf("%d jobs were started, want %d", len(starts), n)
	}
	for id, times := range starts {
		if times != 1 {
			t.Errorf("job %s was started %d times", id, times)
		}
	}
}

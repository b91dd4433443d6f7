package lifecycle

import (
	"strconv"
	"testing"

	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// link is the way to the database, which a test can break.
type link struct{ *linkproxy.Proxy }

func newLink(t *testing.T, db *harness.Database) link {
	t.Helper()
	proxy := must.Get(linkproxy.Start(db.Addr))(t)
	t.Cleanup(func() { proxy.Close() })
	return link{proxy}
}

// settings lead a worker over the link.
func (l link) settings() harness.Settings {
	return harness.Settings{"mysql_port": strconv.Itoa(l.Port())}
}

func (l link) away() {
	l.Refuse(true)
	l.Cut()
}

func (l link) back() { l.Refuse(false) }

// The worker comes up without its database, serves, and polls when the
// database is there: nobody has to ask again.
func TestDatabaseAwayAtStart(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := newGated(t)
	launcher.open(t)
	db.InsertMany(t, 3, "a", "waiting")
	link := newLink(t, db)
	link.away()
	worker := db.Worker(t, "worker", launcher.command, map[string]int{"a": 2}).With(link.settings()).StartWorker(t)
	client := harness.Dial(t, worker.Addr)
	if response := client.Ask(t, "poll", nil); response.Error != "" {
		t.Errorf("poll is refused: %s", response.Error)
	}
	if got, want := targets(t, client), "map[a:2]"; got != want {
		t.Errorf("targets %s, want %s", got, want)
	}
	link.back()
	db.AwaitCount(t, 3, "status = 'done' AND result = 'ok'")
}

func TestPollWhileTheDatabaseIsAwayIsNotForgotten(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := newGated(t)
	launcher.open(t)
	link := newLink(t, db)
	worker := db.Worker(t, "worker", launcher.command, map[string]int{"a": 2}).With(link.settings()).StartWorker(t)
	client := harness.Dial(t, worker.Addr)
	db.Insert(t, 100, "a", "waiting")
	client.Ask(t, "poll", nil)
	db.AwaitDone(t, 100)

	link.away()
	db.InsertMany(t, 3, "a", "waiting")
	var answer string
	client.Ask(t, "poll", nil).Decode(t, &answer)
	if answer != "ok" {
		t.Errorf("poll was answered with %q", answer)
	}
	link.back()
	db.AwaitCount(t, 4, "status = 'done' AND result = 'ok'")
}

// A job ends while the database is away: its client hears the truth from the journal, and the table later.
func TestResultWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := newGated(t)
	link := newLink(t, db)
	worker := db.Worker(t, "worker", launcher.command, map[string]int{"a": 2}).With(link.settings()).StartWorker(t)
	db.Insert(t, 1, "a", "manual")
	client := harness.Dial(t, worker.Addr)
	client.Request(t, "run-manual", map[string]any{"ids": []int{1}})
	launcher.awaitStarts(t, 1)
	link.away()
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
	link.back()
	if row := db.AwaitDone(t, 1); harness.Text(row.Result) != "ok" || harness.Text(row.Stdout) != "out 1\n" {
		t.Errorf("the row says %s", row)
	}
}

// With launch_offline = run, jobs that are claimed already start on the journal alone.
func TestLaunchOffline(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := newGated(t)
	link := newLink(t, db)
	worker := db.Worker(t, "worker", launcher.command, map[string]int{"a": 1}).
		With(link.settings(), harness.Settings{"launch_offline": "run", "prefetch": "1"}).StartWorker(t)
	db.InsertMany(t, 2, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.awaitStarts(t, 1)
	db.AwaitCount(t, 1, "status = 'accepted'")
	link.away()
	launcher.open(t)
	launcher.awaitStarts(t, 2)
	link.back()
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

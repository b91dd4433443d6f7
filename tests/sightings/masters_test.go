package sightings

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"jobd/tests/harness"
)

// registered starts a master and a worker of targets a and b that registers with it over a way which
// can break.
func registered(t *testing.T, held ...int64) (*harness.Database, launcher, *harness.Daemon, *way) {
	t.Helper()
	db, l, master := harness.NewDatabase(t), newLauncher(t, held...), harness.StartMaster(t)
	to := newWay(t, master.Addr)
	quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2, "b": 2}), to.toMaster()).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 1)
	insert(t, db, "a", "waiting", 1000)
	poke(t, master, "a")
	awaitCount(t, db, 1, "id = 1000 AND status = 'done'") // what its start had it do is over
	return db, l, master, to
}

// The master answers a poke and writes it into a link that carries nothing any more, whose end the worker
// notices and the master does not. When the worker registers again the poke is not gone.
func TestPokeIntoAHalfDeadLink(t *testing.T) {
	t.Parallel()
	db, l, master, to := registered(t)
	to.freeze()
	insert(t, db, "a", "waiting", span(1, 5)...)
	poke(t, master, "a")
	<-time.After(moment) // the poke is under way, in vain
	to.forsake()
	to.thaw()
	awaitCount(t, db, 6, "status = 'done'")
	l.expectOnce(t, 6)
}

// A worker's link is half dead: the worker has noticed and registers again, the master has not. It is one
// worker all the same, and manual jobs are given to the link that lives.
func TestHalfDeadRegistrationIsReplaced(t *testing.T) {
	t.Parallel()
	db, l, master, to := registered(t)
	before := registrations(t, master)
	to.forsake()
	await(t, func() string {
		if now := registrations(t, master); now == before {
			return "it has not registered again"
		}
		return ""
	})
	if list := registrations(t, master); strings.Count(list, `"name":"worker"`) != 1 {
		t.Errorf("the master knows the worker more than once: %s", list)
	}
	insert(t, db, "a", "manual", span(1, 8)...)
	var jobs []any
	for id := range int64(8) {
		jobs = append(jobs, map[string]any{"id": id + 1, "target": "a"})
	}
	var answer harness.Jobs
	harness.Dial(t, master.Addr).Ask(t, "run-manual", map[string]any{"jobs": jobs}).Decode(t, &answer)
	if len(answer.Jobs) != 8 || len(answer.Errors) != 0 {
		t.Errorf("%d jobs are answered, and errors %v", len(answer.Jobs), answer.Errors)
	}
	l.expectOnce(t, 9)
}

// registrations tells the workers that the master knows, by where they come from.
func registrations(t *testing.T, master *harness.Daemon) string {
	t.Helper()
	var status struct{ Workers json.RawMessage }
	client := harness.Dial(t, master.Addr)
	defer client.Close()
	client.Ask(t, "status", nil).Decode(t, &status)
	return string(status.Workers)
}

// A manual job is given to a worker whose link carries nothing any more. The client hears within some
// seconds, not after minutes, that the job did not get there; and it did not.
func TestManualJobForAGhost(t *testing.T) {
	t.Parallel()
	db, l, master, to := registered(t)
	to.freeze()
	insert(t, db, "a", "manual", 1)
	client := harness.Dial(t, master.Addr)
	asked := time.Now()
	client.Request(t, "run-manual", map[string]any{"jobs": []any{map[string]any{"id": 1, "target": "a"}}})
	response, _ := client.Answer(t)
	var answer harness.Jobs
	response.Decode(t, &answer)
	// The bound is 10 s; the rest is for a busy machine.
	if took := time.Since(asked); took > 25*time.Second {
		t.Errorf("the client was answered after %s", took)
	}
	if text := answer.Errors["1"]; text == "" || strings.Contains(text, "unknown") {
		t.Errorf("the client is told %q of a job that was never delivered", text)
	}
	to.cut()
	to.thaw()
	harness.AwaitWorkers(t, master, "", 1)
	insert(t, db, "b", "waiting", 2)
	poke(t, master, "b")
	awaitCount(t, db, 1, "id = 2 AND status = 'done'")
	if starts := l.starts(t); starts["1"] != 0 || db.Count(t, "id = 1 AND status = 'manual'") != 1 {
		t.Errorf("the job ran after all: %v", starts)
	}
}

package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/tests/harness"
)

func TestWorkerComesBackToARestartedMaster(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	port := harness.Settings{"port": harness.FreePort(t)}
	master := harness.StartMaster(t, port)
	db.Worker(t, "worker", "/bin/echo {id}", map[string]int{"a": 1}).With(harness.MasterOf(master)).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 1)
	master.Kill(t)

	master = harness.StartMaster(t, port)
	harness.AwaitWorkers(t, master, "", 1)
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, master.Addr).Ask(t, "poke", map[string]any{"targets": []string{"a"}})
	db.AwaitDone(t, 1)
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

// A poke for a target that nobody serves waits for the worker that will.
func TestPokeBeforeTheWorkerServesTheTarget(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t)
	worker := db.Worker(t, "worker", "/bin/echo {id}", map[string]int{"a": 1}).With(harness.MasterOf(master)).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 1)
	db.Insert(t, 1, "later", "waiting")
	harness.Dial(t, master.Addr).Ask(t, "poke", map[string]any{"targets": []string{"later"}})

	var answer string
	harness.Dial(t, worker.Addr).Ask(t, "add-target", map[string]any{"target": "later", "concurrency": 1}).Decode(t, &answer)
	db.AwaitDone(t, 1)
}

// The worker dies while a client waits for its job through the master: the client hears of it.
func TestWorkerKilledWhileAClientWaits(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := newGated(t)
	master := harness.StartMaster(t)
	settings := db.Worker(t, "worker", launcher.command, map[string]int{"a": 1}).With(harness.MasterOf(master))
	worker := settings.StartWorker(t)
	harness.AwaitWorkers(t, master, "", 1)
	db.Insert(t, 1, "a", "manual")
	client := harness.Dial(t, master.Addr)
	client.Request(t, "run-manual", map[string]any{"jobs": []any{map[string]any{"id": 1, "target": "a"}}})
	launcher.awaitStarts(t, 1)
	worker.Kill(t)

	response, _ := client.Answer(t)
	var answer harness.Jobs
	response.Decode(t, &answer)
	if message := answer.Errors["1"]; !strings.Contains(message, "worker") || len(answer.Jobs) != 0 {
		t.Errorf("the client hears %+v", answer)
	}
	launcher.open(t)
	settings.StartWorker(t)
	if row := db.AwaitDone(t, 1); !isRight(row, 1) && !isReported(row) {
		t.Errorf("the row says %s", row)
	}
	expectOnce(t, launcher, 1)
}

// A worker comes back over a new connection while the master still holds the old one, on which nobody answers: no job
// is lost to that ghost, and clients don't wait for it.
func TestGhostOfAWorkerGetsNoJob(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t)
	relay := startRelay(t, master)
	db.Worker(t, "worker", "/bin/echo {id}", map[string]int{"a": 1}).With(relay.master()).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 1)
	relay.next(t).lose()
	relay.next(t) // it is back
	client := harness.Dial(t, master.Addr)
	for id := int64(1); id <= 2; id++ { // one of them for the ghost, by turns
		db.Insert(t, id, "a", "manual")
		begun := time.Now()
		var answer harness.Jobs
		client.Ask(t, "run-manual", map[string]any{"jobs": []any{map[string]any{"id": id, "target": "a"}}}).Decode(t, &answer)
		if took := time.Since(begun); took > 25*time.Second {
			t.Errorf("the client was answered after %v", took)
		}
		for _, message := range answer.Errors { // the worker may have registered only now
			if !strings.Contains(message, "was not delivered") {
				t.Errorf("the client hears %q", message)
			}
		}
	}
	db.Insert(t, 3, "a", "manual")
	var answer harness.Jobs
	client.Ask(t, "run-manual", map[string]any{"jobs": []any{map[string]any{"id": 3, "target": "a"}}}).Decode(t, &answer)
	if len(answer.Jobs) != 1 {
		t.Errorf("the client hears %+v", answer)
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

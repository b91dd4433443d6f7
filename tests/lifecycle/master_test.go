package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"jobd/tests/harness"
)

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

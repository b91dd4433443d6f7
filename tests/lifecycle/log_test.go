package lifecycle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// logFile is a daemon's log, whose lines are objects.
type logFile string

// newLog gives a file, and the settings that have a daemon write it.
func newLog(t *testing.T) (logFile, harness.Settings) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	return logFile(path), harness.Settings{"log_file": path, "log_level_file": "debug", "log_format": "json", "log_keep": "2"}
}

// records gives the records of a text; each line of the file has to be an object.
func (f logFile) records(t *testing.T, text string) (found []map[string]any) {
	t.Helper()
	content := must.Get(os.ReadFile(string(f)))(t)
	whole := content[:strings.LastIndexByte(string(content), '\n')+1]
	for line := range strings.Lines(string(whole)) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if record["msg"] == text {
			found = append(found, record)
		}
	}
	return found
}

// await waits for a record of a text, and gives the newest.
func (f logFile) await(t *testing.T, text string) (newest map[string]any) {
	t.Helper()
	harness.Until(t, func() string {
		found := f.records(t, text)
		if len(found) == 0 {
			return "the log does not say: " + text
		}
		newest = found[len(found)-1]
		return ""
	})
	return newest
}

// A day with its mishaps: what the log of a worker tells, and that of a master.
func TestWhatTheLogTells(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	link := newLink(t, db)
	port := harness.Settings{"port": harness.FreePort(t)}
	workerLog, ofWorker := newLog(t)
	masterLog, ofMaster := newLog(t)
	master := harness.StartMaster(t, port, ofMaster)
	launcher := harness.Script(t, `case $1 in 2) printf 'first\nlast \033[31m{"level":"ERROR"}\n' >&2; exit 3;; 3) kill -TERM $$;; esac`)
	worker := db.Worker(t, "worker", launcher+" {id}", map[string]int{"a": 1}).
		With(harness.MasterOf(master), link.settings(), ofWorker, harness.Settings{"master_reconnect_timeout": "1"}).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 1)
	client := harness.Dial(t, master.Addr)
	db.InsertMany(t, 3, "a", "waiting")
	client.Ask(t, "poke", map[string]any{"targets": []string{"a"}})
	db.AwaitCount(t, 3, "status = 'done'")

	for id, want := range map[float64]map[string]any{
		2: {"level": "WARN", "target": "a", "result": "fail", "code": 3.0, "attempt": 1.0, "stderr": `last [31m{"level":"ERROR"}`},
		3: {"level": "WARN", "target": "a", "result": "fail", "signal": "SIGTERM", "attempt": 1.0, "stderr": nil},
	} {
		found := false
		for _, record := range workerLog.records(t, "job failed") {
			found = found || record["job"] == id
			for key, value := range want {
				if record["job"] == id && record[key] != value {
					t.Errorf("job %v: %s is %v, want %v", id, key, record[key], value)
				}
			}
		}
		if !found {
			t.Errorf("the log does not tell of job %v", id)
		}
	}
	if started, ended := workerLog.records(t, "job started"), workerLog.records(t, "job ended"); len(started) != 3 || started[0]["pid"] == nil || len(ended) != 1 || ended[0]["elapsed"] == nil {
		t.Errorf("started %v, ended %v: want three, and one that did not fail", started, ended)
	}

	for _, request := range []string{"pause", "continue"} {
		client.Ask(t, request, map[string]any{"targets": []string{"a"}})
	}
	for _, text := range []string{"targets were paused", "targets go on"} {
		if by, _ := workerLog.await(t, text)["by"].(string); !strings.Contains(by, "127.0.0.1") {
			t.Errorf("%s: by %q", text, by)
		}
	}
	if asked := masterLog.records(t, "a change is asked for"); len(asked) != 2 || asked[0]["request"] != "pause" {
		t.Errorf("the master's log: %v", asked)
	}

	link.away()
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	workerLog.await(t, "claim jobs failed; trying again until it succeeds")
	master.Kill(t)
	workerLog.await(t, "no connection to the master, trying again")
	must.Do(t, syscall.Kill(worker.Runner(t), syscall.SIGKILL))
	workerLog.await(t, "connection to the runner is lost")
	link.back()
	harness.StartMaster(t, port)
	for _, text := range []string{"claim jobs succeeds again", "registered with the master again", "another runner starts the jobs from now on"} {
		if record := workerLog.await(t, text); record["level"] != "WARN" || record["after"] == nil {
			t.Errorf("the end of an outage: %v", record)
		}
	}
}

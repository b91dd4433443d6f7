package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// A deployment that does not get ready is told by status and health, though all jobs go on.
func TestANewVersionThatDoesNotGetReadyIsTold(t *testing.T) {
	t.Parallel()
	const answer = `{"targets": {"mail": {"concurrency": 2}}, "executors": [{"target": "mail", "mode": "pool", "slots": 2, "processes": 2, "ready": 2,
		"failing": "it ended with exit code 255; it wrote: PHP Parse error", "since": 1795168805000}], "pid": 1, "database": {"reachable": true}, "runner": {"reachable": true}}`
	daemon := startDaemon(t, "", map[string]any{"status": json.RawMessage(answer), "waiting": json.RawMessage(`{"targets": {}}`)})
	const why = "it ended with exit code 255; it wrote: PHP Parse error"
	status := jobctl{terminal: true}.run(t, "--port", daemon.port, "status")
	if want := "\nno new process for target mail gets ready since 10:00:05, those that are there go on: " + why + "\n"; !strings.Contains(status.out, want) {
		t.Errorf("status:\n%s\nwant in it: %s", status.out, want)
	}
	health := jobctl{}.run(t, "--port", daemon.port, "health")
	if health.code != 1 || !strings.Contains(health.out, "no new process for target mail gets ready for ") || !strings.Contains(health.out, why) {
		t.Errorf("health: exit code %d: %s", health.code, health.out)
	}
}

// What a process wrote stands there as it wrote it, line by line; where there is but one line, as for
// monitors, the lines are told apart.
func TestWhatAProcessWroteIsShownAsLines(t *testing.T) {
	t.Parallel()
	const answer = `{"targets": {"mail": {"concurrency": 2}}, "executors": [{"target": "mail", "mode": "pool", "slots": 2, "processes": 2, "ready": 2,
		"failing": "it ended with exit code 1; it wrote:   Traceback:\n  File \"jobs.py\", line 3\r\nModuleNotFoundError: no\u001b[31m app\n", "since": 1795168805000}], "pid": 1, "database": {"reachable": true}, "runner": {"reachable": true}}`
	daemon := startDaemon(t, "", map[string]any{"status": json.RawMessage(answer), "waiting": json.RawMessage(`{"targets": {}}`)})
	status := jobctl{terminal: true}.run(t, "--port", daemon.port, "status")
	const want = "those that are there go on: it ended with exit code 1; it wrote:\n      Traceback:\n      File \"jobs.py\", line 3\n    ModuleNotFoundError: no\\x1b[31m app\n"
	if !strings.Contains(status.out, want) {
		t.Errorf("status:\n%s\nwant in it: %s", status.out, want)
	}
	health := jobctl{}.run(t, "--port", daemon.port, "health")
	if want := `it wrote: Traceback: / File "jobs.py", line 3 / ModuleNotFoundError: no\x1b[31m app`; !strings.Contains(health.out, want) {
		t.Errorf("health:\n%s\nwant in it: %s", health.out, want)
	}
}

// So is who answered in a process's name.
func TestAStrangerIsTold(t *testing.T) {
	t.Parallel()
	const why = "process 8 (curl) wrote exit 5 0 to descriptor 4 of process 7, which is no answer"
	const answer = `{"targets": {"mail": {"concurrency": 2}}, "executors": [{"target": "mail", "mode": "fork", "slots": 2, "processes": 2, "ready": 2,
		"stranger": "` + why + `", "strangerAt": 1795168805000}], "pid": 1, "database": {"reachable": true}, "runner": {"reachable": true}}`
	daemon := startDaemon(t, "", map[string]any{"status": json.RawMessage(answer), "waiting": json.RawMessage(`{"targets": {}}`)})
	status := jobctl{terminal: true}.run(t, "--port", daemon.port, "status")
	if want := "\ntarget mail, 10:00:05: process 8 (curl) wrote"; !strings.Contains(status.out, want) {
		t.Errorf("status:\n%s\nwant in it: %s", status.out, want)
	}
}

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

const executorsAnswer = `{"targets": {"hook": {"concurrency": 2, "why": "the service can't be reached: refused"}, "mail": {"concurrency": 4}, "sms": {"why": "no process gets ready that could run its jobs: exit code 1\u001b[31m"}},
	"executors": [
		{"target": "hook", "mode": "http", "slots": 2, "address": "http://h/run/{id}", "processes": 0, "ready": 0, "busy": 1, "booting": 0, "boots": 3, "jobs": 12345, "unready": "the service can't be reached: refused", "since": 1795168805000},
		{"target": "mail", "mode": "fork", "slots": 4, "processes": 5, "ready": 2, "busy": 2, "booting": 1, "boots": 19, "jobs": 900, "recycled": {"max_jobs": 12, "recycle": 2, "watch": 12}},
		{"target": "sms", "mode": "pool", "slots": 1, "processes": 1, "booting": 1, "unready": "exit code 1\u001b[31m", "since": 1795168805000}],
	"pid": 1, "database": {"reachable": true}, "runner": {"reachable": true}}`

// A line for each executor, and below, once, why some can't start anything.
func TestStatusTellsOfExecutors(t *testing.T) {
	t.Parallel()
	daemon := startDaemon(t, "", map[string]any{"status": json.RawMessage(executorsAnswer), "waiting": json.RawMessage(`{"targets": {}}`)})
	got := jobctl{terminal: true}.run(t, "--port", daemon.port, "status")
	const table = `
TARGET | EXECUTOR | PROCESSES | READY | BUSY | BOOTING | JOBS   | REPLACED
-------+----------+-----------+-------+------+---------+--------+--------------------------------------
hook   | http     |           |       | 1    |         | 12,345 | 0
mail   | fork     | 5         | 2     | 2    | 1       | 900    | 26 (max_jobs 12, watch 12, recycle 2)
sms    | pool     | 1         | 0     | 0    | 1       | 0      | 0

no job of target hook can be started since 10:00:05: the service can't be reached: refused
no job of target sms can be started since 10:00:05: exit code 1\x1b[31m
`
	if got.code != 0 || !strings.Contains(got.out, table) || strings.Contains(got.out, "nothing is claimed for target") || strings.Contains(got.out, "launcher: nothing") {
		t.Errorf("exit code %d, stdout:\n%s\nwant in it:\n%s", got.code, got.out, table)
	}
}

// Of a fleet each line names its worker.
func TestFleetStatusTellsOfExecutors(t *testing.T) {
	t.Parallel()
	daemon := startDaemon(t, "", map[string]any{"status": json.RawMessage(`{"workers": [{"name": "node-1", "remoteAddr": "10.0.0.1", "remotePort": 1, "targets": ["mail"],
		"workerStatus": ` + executorsAnswer + `}], "memoryUsage": {}}`), "waiting": json.RawMessage(`{"workers": []}`)})
	got := jobctl{terminal: true}.run(t, "--master", "--port", daemon.port, "status")
	for _, want := range []string{
		"NAME   | TARGET | EXECUTOR | PROCESSES ", "node-1 | mail   | fork     | 5 ",
		"worker node-1: no job of target sms can be started since 10:00:05: exit code 1",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("stdout:\n%s\nwant in it: %s", got.out, want)
		}
	}
}

// What one worker answers does not hide what the others do.
func TestFleetStatusWithAnAnswerThatIsNotUnderstood(t *testing.T) {
	t.Parallel()
	for _, odd := range []string{`"ok"`, `[]`, `{"targets": 5}`} {
		daemon := startDaemon(t, "", map[string]any{"status": json.RawMessage(`{"workers": [
			{"name": "odd", "remoteAddr": "10.0.0.2", "remotePort": 2, "targets": ["mail"], "workerStatus": ` + odd + `},
			{"name": "node-1", "remoteAddr": "10.0.0.1", "remotePort": 1, "targets": ["mail"], "workerStatus": ` + executorsAnswer + `}],
			"memoryUsage": {}}`), "waiting": json.RawMessage(`{"workers": []}`)})
		for _, command := range []string{"status", "list-workers", "queue"} {
			got := jobctl{terminal: true}.run(t, "--master", "--port", daemon.port, command)
			if got.code == 0 || !strings.Contains(got.out, "mail") || !strings.Contains(got.out+got.err, "answer to status is not understood") {
				t.Errorf("%s with %s: exit code %d, stdout:\n%s\nstderr:\n%s", command, odd, got.code, got.out, got.err)
			}
		}
	}
}

// That the jobs of some targets can't be started is a warning; the others run.
func TestHealthWarnsOfExecutors(t *testing.T) {
	t.Parallel()
	daemon := startDaemon(t, "", map[string]any{"status": json.RawMessage(executorsAnswer), "waiting": json.RawMessage(`{"targets": {}}`)})
	got := jobctl{}.run(t, "--port", daemon.port, "health")
	if got.code != 1 || !strings.HasPrefix(got.out, "JOBD WARNING") || !strings.Contains(got.out, "no job of target hook can be started for ") {
		t.Errorf("exit code %d: %s", got.code, got.out)
	}
}

func TestPsNamesExecutors(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{"status": json.RawMessage(workerAnswer), "running": json.RawMessage(
		`{"jobs": [{"job": 7, "target": "mail", "attempt": 1, "pid": 4711, "executor": "fork", "since": 1}, {"job": 8, "target": "mail", "attempt": 1, "pid": 4712, "since": 2},
		{"job": 9, "target": "hook", "attempt": 1, "executor": "http", "address": "http://h:80", "since": 3}], "total": 3}`)})
	got := jobctl{}.run(t, "--port", d.port, "ps")
	lines := strings.Split(got.out, "\n")
	for i, want := range []string{"EXECUTOR", "fork", "process", "http"} {
		if !strings.HasSuffix(strings.TrimRight(lines[i], " "), want) {
			t.Errorf("line %d of:\n%s\nwant at its end %s", i, got.out, want)
		}
	}
}

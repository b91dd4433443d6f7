package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"jobd/cmd/internal/exit"
	"jobd/net/api"
)

// standingOf is a worker's status with an executor of a target.
func standingOf(executor string) json.RawMessage {
	return json.RawMessage(`{"targets": {"mail": {"concurrency": 2}}, "executors": [` + executor + `, {"target": "hook", "mode": "http", "address": "http://h/"}],
		"pid": 1, "database": {"reachable": true}, "runner": {"reachable": true}}`)
}

// recycle --wait ends when no process is old any more, and not before.
func TestRecycleWaits(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	d := startTurns(t, map[string]any{"recycle": "ok"}, "status", func(string) any {
		return standingOf(fmt.Sprintf(`{"target": "mail", "mode": "pool", "processes": 2, "busy": 1, "old": %d}`, max(0, 3-asked.Add(1))))
	})
	got := jobctl{}.run(t, "--port", d.port, "recycle", "--wait", "mail")
	if got.code != 0 || got.out != "ok\nno old process is left\n" || asked.Load() != 3 {
		t.Errorf("%+v, after %d looks", got, asked.Load())
	}
}

// What is left when the time is over is told, with why; what is not the caller's matter is not waited
// for.
func TestRecycleWaitsNoLonger(t *testing.T) {
	t.Parallel()
	for executor, want := range map[string]string{
		`{"target": "mail", "mode": "pool", "processes": 2, "ready": 2, "old": 2, "failing": "it ended with exit code 1; it wrote: a\nb", "since": 1}`: "target mail has old processes: 2, since no new one gets ready: it ended with exit code 1; it wrote: a / b",
		`{"target": "mail", "mode": "fork", "processes": 2, "busy": 2, "old": 1}`:                                                                      "target mail has old processes: 1, while jobs run",
		`{"target": "mail", "mode": "fork", "processes": 2, "busy": 2}`:                                                                                "it is an older jobd, and can't tell which of its processes are old; they are replaced all the same",
	} {
		d := startDaemon(t, "", map[string]any{"recycle": "ok", "status": standingOf(executor)})
		code := exit.Late
		if strings.Contains(want, "older") {
			code = exit.Failure
		}
		if got := (jobctl{}).run(t, "--port", d.port, "--timeout", "300ms", "recycle", "--wait"); got.code != code || got.out != "ok\n" || !strings.HasPrefix(got.err, "jobctl: recycle: ") || !strings.HasSuffix(got.err, want+"\n") {
			t.Errorf("%s: %+v", executor, got)
		}
		if got := (jobctl{}).run(t, "--port", d.port, "--timeout", "5s", "recycle", "--wait", "hook"); got.code != 0 {
			t.Errorf("another target: %+v", got)
		}
	}
}

// Of a fleet each worker is waited for, also one that does not answer for now.
func TestRecycleWaitsForAFleet(t *testing.T) {
	t.Parallel()
	fleet := func(first string) json.RawMessage {
		return json.RawMessage(`{"workers": [{"name": "node-1", "remoteAddr": "10.0.0.1", "remotePort": 1, "targets": ["mail"], ` + first + `},
			{"name": "node-2", "remoteAddr": "10.0.0.2", "remotePort": 1, "targets": ["mail"], "workerStatus": ` + string(standingOf(`{"target": "mail", "mode": "pool", "processes": 2, "old": 0}`)) + `}], "memoryUsage": {}}`)
	}
	for first, want := range map[string]string{
		`"workerStatusError": "no answer within 5s"`:                                                            "worker node-1: no answer within 5s",
		`"workerStatus": ` + string(standingOf(`{"target": "mail", "mode": "pool", "processes": 2, "old": 2}`)): "worker node-1: target mail has old processes: 2",
	} {
		d := startDaemon(t, "", map[string]any{"recycle": json.RawMessage(`{"result": "ok", "workers": 2}`), "status": fleet(first)})
		if got := (jobctl{}).run(t, "--master", "--port", d.port, "--timeout", "300ms", "recycle", "--wait"); got.code != 5 || !strings.HasSuffix(got.err, "they go as soon as they can: "+want+"\n") {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// What was set by hand and is undone by a start is told.
func TestWhatARestartUndoes(t *testing.T) {
	t.Parallel()
	before := map[string]api.TargetStatus{"a": {Concurrency: 5, Paused: true}, "b": {Concurrency: 1}, "c": {Concurrency: 2, Paused: true}, "d": {}}
	after := map[string]api.TargetStatus{"a": {Concurrency: 2}, "b": {Concurrency: 1}, "c": {Concurrency: 2, Paused: true}, "e": {Concurrency: 1}}
	want := []string{"target a: 5 slots → 2, as the file says", "target a was paused, it is not now", "target d is not served any more: the file does not have it", "target e is served now: 1 slot, as the file says"}
	if got := undone(before, after); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

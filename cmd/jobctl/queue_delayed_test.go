package main

import (
	"encoding/json"
	"strings"
	"testing"

	"jobd/cmd/internal/screen"
	jobnet "jobd/net"
)

// The clock of these tests shows 2026-11-20 12:00.
const delayedList = `{"rows": [
	{"job": 9, "target": "mail", "schedule": "daily 02:30", "in": "Europe/Berlin", "next": 1795228200},
	{"job": 5, "target": "mail", "run_at": 1795175990, "due": true},
	{"job": 6, "target": "mail", "run_at": 1795176300, "attempts": 1, "max_attempts": 5, "finished": 1795175000, "result": "fail", "code": 3},
	{"job": 7, "target": "b", "run_at": 1795228200, "schedule": "daily 02:30", "in": "Europe/Berlin", "next": 1795228200, "finished": 1795141800, "result": "ok", "code": 0},
	{"job": 8, "target": "b", "run_at": 1795228200, "schedule": "dayly", "in": "UTC", "bad": "schedule \"dayly\": it has none of the known forms"}], "more": true}`

func TestDelayedRowsAreListed(t *testing.T) {
	t.Parallel()
	status := json.RawMessage(`{"targets": {"mail": {}, "b": {}}}`)
	d := startDaemon(t, "", map[string]any{"status": status, "delayed": json.RawMessage(delayedList)})
	got := jobctl{terminal: true, columns: 80}.run(t, "--port", d.port, "queue", "--delayed", "mail", "b", "-n", "5")
	for _, line := range []string{
		"JOB | TARGET | DUE | WHY", "9 | mail | not planned yet | recurs daily 02:30 Europe/Berlin", "5 | mail | 11:59:50 | first time",
		"6 | mail | 12:05:00 | attempt 2 of 5 after exit code 3", "7 | b | 2026-11-21 02:30:00 | recurs daily 02:30 Europe/Berlin",
		"8 | b | 2026-11-21 02:30:00 | is ignored then: schedule \"dayly\": it has …", "the next 5; -n N shows more",
	} {
		if got.code != 0 || !strings.Contains(collapsed(got.out), line) {
			t.Errorf("exit code %d, no %q in\n%s%s", got.code, line, got.out, got.err)
		}
	}
	for line := range strings.Lines(got.out) {
		if screen.Width(line) > 81 {
			t.Errorf("wider than a terminal: %s", line)
		}
	}
	if asked := d.asked(); !strings.Contains(strings.Join(asked, " "), `delayed {"targets":["mail","b"],"most":5}`) {
		t.Errorf("asked %q", asked)
	}
	if got := (jobctl{}).run(t, "--port", d.port, "queue", "--delayed", "--output", "json"); got.code != 0 || !strings.Contains(got.out, `{"job":6,"target":"mail","run_at":1795176300,"attempts":1,"max_attempts":5,`) || !strings.Contains(got.out, `"more":true`) {
		t.Errorf("%+v", got)
	}
	refused := startDaemon(t, "", map[string]any{"status": status, "delayed": jobnet.Refusal("rows are not delayed here: the key use_columns does not name run_at")})
	if got := (jobctl{}).run(t, "--port", refused.port, "queue", "--delayed"); got.code != 1 || !strings.Contains(got.err, "use_columns does not name run_at") {
		t.Errorf("%+v", got)
	}
	older := startDaemon(t, "", map[string]any{"status": status})
	if got := (jobctl{}).run(t, "--port", older.port, "queue", "--delayed"); got.code != 1 || !strings.Contains(got.err, "older jobd") {
		t.Errorf("%+v", got)
	}
	for args, want := range map[string]string{
		"queue -n 5": "-n is for --delayed", "queue --delayed -n 0": "allowed is 1 to 1000", "queue --delayed -n 1001": "allowed is 1 to 1000",
	} {
		if got := (jobctl{}).run(t, append([]string{"--port", d.port}, strings.Fields(args)...)...); got.code != 2 || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// Rows of several workers come in the order in which they are due, and no more than are wanted.
func TestDelayedRowsOfAMaster(t *testing.T) {
	t.Parallel()
	const fleet = `{"workers": [
		{"name": "n1", "remoteAddr": "10.0.0.1", "remotePort": 1, "targets": ["a"]},
		{"name": "n2", "remoteAddr": "10.0.0.2", "remotePort": 2, "targets": ["b"]}], "memoryUsage": {}}`
	d := startTurns(t, map[string]any{"status": json.RawMessage(fleet)}, "delayed", func(data string) any {
		if strings.Contains(data, "10.0.0.1") {
			return json.RawMessage(`{"workers": [{"name": "n1", "address": "10.0.0.1:1", "data": {"rows": [{"job": 5, "target": "a", "run_at": 1795176300}, {"job": 6, "target": "a", "run_at": 1795176500}]}}]}`)
		}
		return json.RawMessage(`{"workers": [{"name": "n2", "address": "10.0.0.2:2", "data": {"rows": [{"job": 7, "target": "b", "run_at": 1795176400}]}}]}`)
	})
	got := jobctl{}.run(t, "--port", d.port, "--master", "queue", "--delayed", "-n", "2", "--output", "json")
	want := `{"more":true,"rows":[{"worker":"n1","job":5,"target":"a","run_at":1795176300},{"worker":"n2","job":7,"target":"b","run_at":1795176400}]}`
	if got.code != 0 || !sameJSON(t, got.out, want) {
		t.Errorf("%+v", got)
	}
}

package conformance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// exchange is one line of a recording.
type exchange struct {
	Name    string     `json:"name"`
	To      string     `json:"to"`
	Rows    []row      `json:"rows"`
	Send    []string   `json:"send"`
	Gap     float64    `json:"gap"` // seconds between the frames sent
	Receive []any      `json:"receive"`
	Closed  bool       `json:"closed"`
	Table   []tableRow `json:"table"`
}

// row is [id, target, status].
type row struct {
	id             int64
	target, status string
}

func (r *row) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&r.id, &r.target, &r.status})
}

// tableRow is how a row must read in the end.
type tableRow struct {
	ID         int64   `json:"id"`
	Target     string  `json:"target"`
	Status     string  `json:"status"`
	Result     *string `json:"result"`
	ReturnCode *int    `json:"return_code"`
	Sig        *string `json:"sig"`
	Stdout     *string `json:"stdout"`
	Stderr     *string `json:"stderr"`
	Started    int     `json:"started"` // 1: time_started is set
	Finished   int     `json:"finished"`
}

const password = "s3cret"

func TestRecordedExchanges(t *testing.T) {
	t.Parallel()
	cases := []struct {
		recording string
		worker    harness.Settings
	}{
		{recording: "plain"},
		{recording: "password", worker: harness.Settings{"password": password}},
		{recording: "localhost", worker: harness.Settings{"password": password, "always_allow_localhost": "1"}},
	}
	for _, c := range cases {
		t.Run(c.recording, func(t *testing.T) {
			t.Parallel()
			db := harness.NewDatabase(t)
			master := harness.StartMaster(t, harness.Settings{"password": c.worker["password"]})
			worker := node1(t, db).With(harness.MasterOf(master), c.worker).StartWorker(t)
			harness.AwaitWorkers(t, master, c.worker["password"], 1)

			addr := map[string]string{"worker": worker.Addr, "master": master.Addr}
			for _, e := range read[exchange](t, c.recording) {
				// One after the other: what a line does, the next one finds.
				t.Run(e.Name, func(t *testing.T) { e.replay(t, db, addr[e.To]) })
			}
		})
	}
}

// node1 is the worker that the recordings were made with.
func node1(t *testing.T, db *harness.Database) harness.Settings {
	launcher := filepath.Join(harness.Top(), "testdata", "conformance", "launch.sh")
	return db.Worker(t, "node-1", launcher+" {id}", map[string]int{"a": 10, "b": 2})
}

// read gives the lines of a recording.
func read[T any](t *testing.T, recording string) []T {
	t.Helper()
	file := must.Get(os.Open(filepath.Join(harness.Top(), "testdata", "conformance", recording+".jsonl")))(t)
	defer file.Close()
	var lines []T
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		var line T
		must.Do(t, json.Unmarshal(scanner.Bytes(), &line), "%s line %d", recording, len(lines)+1)
		lines = append(lines, line)
	}
	if err := scanner.Err(); err != nil || len(lines) == 0 {
		t.Fatalf("%s: %d lines: %v", recording, len(lines), err)
	}
	return lines
}

func (e exchange) replay(t *testing.T, db *harness.Database, addr string) {
	for _, r := range e.Rows {
		db.Insert(t, r.id, r.target, r.status)
	}
	wire := harness.Dial(t, addr)
	defer wire.Close()
	for i, frame := range e.Send {
		if i > 0 {
			e.pause(t, db)
		}
		wire.Send(t, frame)
	}
	e.receive(t, wire)
	for _, want := range e.Table {
		harness.Until(t, func() string { return want.missing(db.Row(t, want.ID)) })
	}
}

// pause lets the recorded gap pass. On a slow machine the gap alone does not say what it
// said when it was recorded: that the job of the frame before runs by now.
func (e exchange) pause(t *testing.T, db *harness.Database) {
	if e.Gap == 0 {
		return
	}
	<-time.After(time.Duration(e.Gap * float64(time.Second)))
	for _, r := range e.Rows {
		harness.Until(t, func() string {
			if status := db.Row(t, r.id).Status; status != "running" && status != "done" {
				return fmt.Sprintf("job %d is %s, not running", r.id, status)
			}
			return ""
		})
	}
}

// receive takes what was recorded and nothing else: a ping after it is
// answered next, or the connection is closed where that was recorded.
func (e exchange) receive(t *testing.T, wire *harness.Wire) {
	t.Helper()
	(&expectation{frames: e.Receive}).receive(t, wire)
	if e.Closed {
		if more := wire.Closed(t); len(more) > 0 {
			t.Errorf("received more before the end: %q", more)
		}
		return
	}
	wire.Send(t, "[2]")
	check.Equal(t, must.Get(wire.Receive(harness.Patience))(t), "[3]", "after the exchange: received …,")
}

// missing tells how the row differs from the recorded one.
func (want tableRow) missing(got harness.Row) string {
	checks := []struct {
		column    string
		want, got any
	}{
		{"target", want.Target, got.Target},
		{"status", want.Status, got.Status},
		{"result", shown(want.Result), shown(got.Result)},
		{"return_code", shown(want.ReturnCode), shown(got.Code)},
		{"sig", shown(want.Sig), shown(got.Sig)},
		{"stdout", shown(want.Stdout), shown(got.Stdout)},
		{"stderr", shown(want.Stderr), shown(got.Stderr)},
		{"time_started is set", want.Started == 1, got.Started > 0},
		{"time_finished is set", want.Finished == 1, got.Finished > 0},
	}
	for _, c := range checks {
		if c.want != c.got {
			return fmt.Sprintf("row %d: %s: want %v, got %v", want.ID, c.column, c.want, c.got)
		}
	}
	return ""
}

// shown tells NULL from every value.
func shown[T any](value *T) string {
	if value == nil {
		return "NULL"
	}
	return fmt.Sprintf("%#v", *value)
}

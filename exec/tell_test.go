package exec_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/journal"
)

// told is a log that keeps its records, as JSON.
type told struct {
	mu    sync.Mutex
	lines bytes.Buffer
	wrote chan struct{} // has room for one
}

func (l *told) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.wrote <- struct{}{}:
	default:
	}
	return l.lines.Write(p)
}

// await waits for so many records of one text, which are written after what they tell of is
// journalled.
func (l *told) await(t *testing.T, n int, level, text string) (found []map[string]any) {
	t.Helper()
	timer := time.NewTimer(hung)
	defer timer.Stop()
	for {
		if found = l.of(t, level, text); len(found) >= n {
			return found
		}
		select {
		case <-l.wrote:
		case <-timer.C:
			t.Fatalf("%d records of %q within %s, want %d", len(found), text, hung, n)
		}
	}
}

// of gives the records of one text, without time, level and text.
func (l *told) of(t *testing.T, level, text string) (found []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.lines.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if record["msg"] != text {
			continue
		}
		if record["level"] != level {
			t.Errorf("%s is of level %s, want %s", text, record["level"], level)
		}
		for _, key := range []string{"time", "level", "msg"} {
			delete(record, key)
		}
		found = append(found, record)
	}
	return found
}

// logged starts a worker whose log is kept, from a level on.
func (f *fixture) logged(level slog.Level, change ...func(*jobexec.Config)) *told {
	log := &told{wrote: make(chan struct{}, 1)}
	f.build(func(c *jobexec.Config) {
		for _, more := range change {
			more(c)
		}
		c.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: level}))
	})
	f.start()
	return log
}

func TestTheLogTellsOfFailedJobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b")), nil)
	log := f.logged(slog.LevelWarn)
	p := f.next()
	p.stderr = "first\nlast\x1b[31m one\r\n\n"
	p.exit(3)
	f.table.insert(waiting(2, "b"))
	f.worker.PollAll()
	f.next().exit(0)
	f.wait("both are done", func(s *journal.State) bool { return s.Seq > 8 && len(s.Jobs) == 0 })
	want := []map[string]any{{
		"job": 1.0, "target": "b", "attempt": 1.0, "result": "fail", "code": 3.0, "stderr": "last[31m one",
	}}
	if diff := cmp.Diff(want, log.await(t, 1, "WARN", "job failed")); diff != "" {
		t.Errorf("failed jobs (-want +got):\n%s", diff)
	}
	if got := log.of(t, "DEBUG", "job ended"); got != nil {
		t.Errorf("told of ends that nobody asked for: %v", got)
	}
}

func TestTheLogTellsOfStartsAndEndsWhoeverLooksForThem(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b")), nil)
	log := f.logged(slog.LevelDebug)
	f.next().exit(0)
	f.wait("the job is done", func(s *journal.State) bool { return s.Seq > 4 && len(s.Jobs) == 0 })
	started, ended := log.await(t, 1, "DEBUG", "job started"), log.await(t, 1, "DEBUG", "job ended")
	if len(started) != 1 || started[0]["job"] != 1.0 || started[0]["target"] != "b" || started[0]["attempt"] != 1.0 || started[0]["pid"] == nil {
		t.Errorf("starts: %v", started)
	}
	if len(ended) != 1 || ended[0]["result"] != "ok" || ended[0]["code"] != 0.0 || ended[0]["stderr"] != nil {
		t.Errorf("ends: %v", ended)
	}
}

// Each change is told once, with who made it, where it is journalled.
func TestTheLogTellsWhoHasChangedWhat(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b")), nil)
	log := f.logged(slog.LevelInfo)
	p := f.next()
	const by = "10.0.0.5:4711, through 10.0.0.1"
	w := f.worker
	if sent := w.SendSignal(map[int64]int{1: 15}, by); !sent[1] {
		t.Errorf("signals: %v", sent)
	}
	for _, err := range []error{
		w.Pause([]string{"a"}, by), w.Continue([]string{"a"}, by), w.AddTarget("x\nERR y", 2, by), w.SetConcurrency("a", 7, by),
		w.RemoveTarget("x\nERR y", by), w.Note(journal.Requested{Request: "restart", By: by}),
		w.Note(journal.Refused{Request: "pause", About: "targets=[]", Reason: "no", By: by}),
		w.Note(journal.Reloaded{File: "/etc/jobd.conf", Changed: []string{"password"}, By: by}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p.exit(0)
	for text, want := range map[string]map[string]any{
		"targets were paused":         {"targets": []any{"a"}, "by": by},
		"targets go on":               {"targets": []any{"a"}, "by": by},
		"target was added":            {"target": "x\nERR y", "concurrency": 2.0, "by": by},
		"target was removed":          {"target": "x\nERR y", "by": by},
		"concurrency was set":         {"target": "a", "concurrency": 7.0, "by": by},
		"signal is sent":              {"job": 1.0, "target": "b", "attempt": 1.0, "signal": 15.0, "by": by},
		"request was taken":           {"request": "restart", "by": by},
		"request was refused":         {"request": "pause", "about": "targets=[]", "reason": "no", "by": by},
		"configuration is taken over": {"file": "/etc/jobd.conf", "changed": []any{"password"}, "by": by},
	} {
		if diff := cmp.Diff([]map[string]any{want}, log.await(t, 1, "INFO", text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// A schedule that can't be read is told of without anybody having asked for more than warnings: the
// row is ignored for good, and no journal of failures has it.
func TestTheLogTellsOfRowsThatCantBeRun(t *testing.T) {
	t.Parallel()
	row := waiting(1, "b")
	row.Plan = &journal.Plan{Schedule: "daily"}
	f := newFixture(t, newTable(row), nil)
	log := f.logged(slog.LevelWarn)
	got := log.await(t, 1, "WARN", "job is ignored: its row can't be run as it is")
	if reason, _ := got[0]["reason"].(string); got[0]["job"] != 1.0 || !strings.Contains(reason, "write daily 02:30") {
		t.Errorf("told: %v", got)
	}
}

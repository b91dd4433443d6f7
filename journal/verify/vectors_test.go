package verify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

var updateVectors = flag.Bool("update", false, "write testdata/journal anew; that changes the format that journals have had so far")

const vectorsDir = "../../testdata/journal"

// vector is an event as the vectors' JSON lines have it: payload is the very text that the hash
// covers.
type vector struct {
	Seq     uint64       `json:"seq"`
	Time    int64        `json:"time"`
	Job     int64        `json:"job"`
	Kind    journal.Kind `json:"kind"`
	Payload string       `json:"payload"`
	Stdout  []byte       `json:"stdout,omitempty"`
	Stderr  []byte       `json:"stderr,omitempty"`
	Hash    string       `json:"hash"`
}

// vectorHeader is likewise a segment's header, and its hash.
type vectorHeader struct {
	Segment    int    `json:"segment"`
	First      uint64 `json:"first"`
	Previous   string `json:"previous"`
	Checkpoint string `json:"checkpoint"`
	Hash       string `json:"hash"`
}

// What the vectors' files hold is what their JSON lines say, and what this version would write: the
// format of journals does not change unnoticed. With -update they are written anew.
func TestVectors(t *testing.T) {
	vectors := must.Get(filepath.Abs(vectorsDir))(t)
	fresh := t.TempDir()
	t.Chdir(fresh)
	writeVectors(t)
	events, headers := linesOf(t, joined(t, "journal", "archive"))
	if *updateVectors {
		replaceVectors(t, vectors, events, headers)
	}
	wantEvents := must.Get(os.ReadFile(filepath.Join(vectors, "events.jsonl")))(t)
	wantHeaders := must.Get(os.ReadFile(filepath.Join(vectors, "headers.jsonl")))(t)
	check.Diff(t, string(wantEvents)+string(wantHeaders), events+headers, "what is written now is not what the vectors say")
	dir := joined(t, filepath.Join(vectors, "journal"), filepath.Join(vectors, "archive"))
	events, headers = linesOf(t, dir)
	check.Diff(t, string(wantEvents)+string(wantHeaders), events+headers, "what is read of the vectors is not what their lines say")
	for _, dir := range []string{dir, filepath.Join(vectors, "journal"), filepath.Join(vectors, "archive")} {
		must.Get(readtest.VerifyAll(context.Background(), readtest.OpenReader(t, dir)))(t)
	}
	for _, kind := range journal.Kinds() {
		check.Contains(t, events, `"kind":"`+string(kind)+`"`, "no event of the vectors is %q", kind)
	}
}

// joined is copies of the files of several folders in one.
func joined(t *testing.T, dirs ...string) string {
	t.Helper()
	to := t.TempDir()
	for _, dir := range dirs {
		must.Do(t, os.CopyFS(to, os.DirFS(dir)))
	}
	return to
}

// linesOf gives a journal's events and headers as JSON lines.
func linesOf(t *testing.T, dir string) (events, headers string) {
	t.Helper()
	var text [2]bytes.Buffer
	write := func(i int, value any) {
		t.Helper()
		encoder := json.NewEncoder(&text[i])
		encoder.SetEscapeHTML(false)
		must.Do(t, encoder.Encode(value))
	}
	must.Do(t, readtest.OpenReader(t, dir).Folder().Walk(t.Context(), 0, func(s archive.Source, h archive.Header) error {
		write(1, vectorHeader{h.Number, h.First, h.Previous.String(), string(h.Checkpoint), h.Opening().String()})
		for page, err := range s.Records(t.Context(), archive.Selection{Output: true}) {
			if err != nil {
				return err
			}
			for _, r := range page {
				write(0, vector{r.Seq, r.Micros, r.Job, r.Kind, string(r.Payload), r.Stdout, r.Stderr, r.Hash.String()})
			}
		}
		return nil
	}))
	return text[0].String(), text[1].String()
}

// replaceVectors replaces the vectors by the journal and archive in the folder that we are in.
func replaceVectors(t *testing.T, vectors, events, headers string) {
	t.Helper()
	for _, name := range []string{"journal", "archive"} {
		to := filepath.Join(vectors, name)
		must.Do(t, os.RemoveAll(to))
		must.Do(t, os.CopyFS(to, os.DirFS(name)))
		for name := range readtest.Listing(t, to) { // git keeps no other permissions
			must.Do(t, os.Chmod(filepath.Join(to, name), 0o644))
		}
	}
	for name, text := range map[string]string{"events.jsonl": events, "headers.jsonl": headers} {
		must.Do(t, os.WriteFile(filepath.Join(vectors, name), []byte(text), 0o644))
	}
	for _, name := range []string{"lock", "clock"} { // they say nothing of the history
		must.Do(t, os.RemoveAll(filepath.Join(vectors, "journal", name)))
	}
}

// writeVectors writes the vectors' journal, and its archive beside it, in the folder that we are
// in: four days, a segment each, of which the oldest goes to the archive on the third.
func writeVectors(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"journal", "archive"} {
		must.Do(t, os.Mkdir(dir, 0o700))
	}
	now := time.Date(2026, 11, 16, 8, 0, 0, 123456000, time.UTC)
	j := journaltest.OpenWith(t, eventlog.Config{
		Dir: "journal", ArchiveDir: "archive", Now: func() time.Time { return now },
		SegmentAge: 20 * time.Hour, Retention: 40 * time.Hour,
	})
	for i, day := range vectorDays() {
		for _, draft := range day {
			journaltest.MustAppend(t, j, draft)
			now = now.Add(time.Second + 7*time.Microsecond)
		}
		j.SetPosition(readtest.Snapshot(j).Seq)
		if i == 2 {
			journaltest.MustMaintain(t, j)
		}
		now = now.Add(24 * time.Hour)
	}
	j.Reopen(t, func(c *eventlog.Config) { c.Retention = 0 })
	journaltest.MustMaintain(t, j)
	journaltest.MustClose(t, j)
}

// vectorDays is what happens in the vectors' journal: every kind of event, and at the end of each
// day jobs of every status that a checkpoint can hold. Names are awkward on purpose: JSON has more
// than one way to write them.
func vectorDays() [][]journal.Draft {
	const name, odd = "nœud-1 <a&b>", "video/\u2028\"high\"\\\t<&>\u007f"
	three, zero := 3, 0
	text := []byte(strings.Repeat("a line that compresses well\n", 20))
	frame := []byte("\x28\xb5\x2f\xfdthis looks like zstd, and is none")
	late := journal.Plan{
		RunAt: 1795000600, PlannedAt: 1795000300, Attempts: 2, MaxAttempts: 5, Timeout: 600, Schedule: "every 5m", Zone: "Europe/Berlin",
	}
	worker := func(p journal.Payload) journal.Draft { return journal.Draft{Payload: p} }
	opened := worker(journal.Opened{
		Name: name, Version: "1.0.0", Pid: 4711, BootID: "b-1", Targets: map[string]int{"mail": 2, odd: 1}, Host: "host-1",
		Launcher: []string{"/usr/bin/env", "run"},
	})
	return [][]journal.Draft{
		{
			opened,
			worker(journal.Marked{Mark: "k7"}),
			worker(journal.Server{Server: "uuid-1"}),
			{Job: 1, Payload: journal.Accepted{Target: "mail", Token: "@k7aaaaaaa", Created: 1795000000}},
			{Job: 1, Payload: journal.Running{Attempt: 1, Claimed: true, Token: "@k7aaaaaaa"}},
			{Job: 1, Payload: journal.Started{Pid: 100, StartTime: 1<<53 + 1, BootID: "b-1"}},
			{Job: 1, Payload: journal.Done{Result: "ok", Code: &zero, Stdout: journal.Output{Kept: text, Size: 560}, Stderr: journal.Output{Kept: frame, Size: 40}, Elapsed: 12, Token: "@k7aaaaaaa"}},
			{Job: 2, Payload: journal.Accepted{Target: odd, Token: "@k7aaaaaab"}},
			{Job: 1<<63 - 1, Payload: journal.Accepted{Target: "mail", Manual: true, Token: "@k7aaaaaac"}},
			{Job: 1<<63 - 1, Payload: journal.Running{Attempt: 1, Runner: "r-1"}},
			{Job: -5, Payload: journal.Accepted{Target: "mail", Token: "@k7aaaaaad"}},
			{Job: -5, Payload: journal.Running{Attempt: 1}},
			{Job: -5, Payload: journal.Started{Pid: 101, StartTime: 7, BootID: "b-1"}},
			worker(journal.Paused{Targets: []string{odd, "unknown"}, By: "127.0.0.1:5"}),
		},
		{
			{Job: -5, Payload: journal.Conflict{Found: &journal.Row{Target: "mail", Status: "waiting"}, Wanted: journal.RowRunning, Token: "@k7aaaaaad"}}, // so it is lost
			{Job: -5, Payload: journal.Conflict{Wanted: journal.RowDone, Token: "@k7another"}},                                                            // of an older claim
			{Job: -5, Payload: journal.Conflict{Wanted: journal.RowIgnored, Reason: "gone"}},
			{Job: -5, Payload: journal.Signal{Signo: 15, By: "shutdown"}},
			{Job: 1<<63 - 1, Payload: journal.Running{Attempt: 1, Runner: "r-2"}}, // the same attempt, since nothing was started
			{Job: 2, Payload: journal.SetAside{Wanted: journal.RowRunning, Reason: "locked", Token: "@k7aaaaaab"}},
			worker(journal.Requested{Jobs: []int64{3, 4}, More: 1, By: "127.0.0.1:6"}),
			{Job: 3, Payload: journal.Ignored{Reason: "not manual"}},
			{Job: 3, Payload: journal.Conflict{Wanted: journal.RowIgnored, Reason: "the row is locked"}},
			{Job: 4, Payload: journal.Accepted{Target: "mail", Manual: true, Token: "@k7aaaaaae"}},
			{Job: 4, Payload: journal.Released{Reason: "shutdown", Target: "mail", Manual: true, Token: "@k7aaaaaae"}},
			worker(journal.TargetAdded{Target: "new", Concurrency: 4, By: "127.0.0.1:6"}),
			worker(journal.ConcurrencySet{Target: "new", Concurrency: 0, By: "127.0.0.1:6"}),
			worker(journal.Refused{Request: "remove-target", About: "unknown", Reason: "there is none", By: "127.0.0.1:6"}),
			worker(journal.Closed{Reason: "shutdown"}),
		},
		{
			opened,
			worker(journal.Paused{Targets: []string{"mail"}, By: "configuration file"}),
			worker(journal.Continued{Targets: []string{"mail"}, By: "127.0.0.1:7"}),
			worker(journal.TargetRemoved{Target: odd, By: "SIGHUP"}),
			worker(journal.Reloaded{File: "/etc/jobd.conf", Digest: strings.Repeat("0f", 32), Changed: []string{"targets.new"}, By: "SIGHUP"}),
			worker(journal.Reapplied{From: 1, To: 29, By: "127.0.0.1:7"}),
			worker(journal.Reapplied{From: 1, To: 29, Rows: 1, By: "127.0.0.1:7", Ended: true}),
			{Job: -5, Payload: journal.Requeued{Reason: "nobody knows how it ended", By: "on_crash = requeue", Token: "@k7aaaaaad"}},
			{Job: -5, Payload: journal.Running{Attempt: 2}},
			{Job: -5, Payload: journal.Started{Pid: 9, StartTime: 8, BootID: "b-2"}},
			{Job: 2, Payload: journal.Conflict{Found: &journal.Row{Target: odd, Status: "done", Owner: "x"}, Wanted: journal.RowRunning}},
			{Job: 5, Payload: journal.Accepted{Target: "mail", Token: "@k7aaaaaaf"}},
			{Job: 5, Payload: journal.Running{Attempt: 1}},
			{Job: 5, Payload: journal.Started{Pid: 10, StartTime: 9, BootID: "b-2"}},
			{Job: 5, Payload: journal.Cancelled{By: "127.0.0.1:8", Runs: true, Grace: 10_000_000, Token: "@k7aaaaaaf"}},
			{Job: 8, Payload: journal.Accepted{Target: "mail", Token: "@k7aaaaaah", Created: 1795000000, From: journal.RowDelayed, Plan: &late, PlannedAt: 1795000300}},
			{Job: 8, Payload: journal.Running{Attempt: 3, Claimed: true, Token: "@k7aaaaaah", Timeout: 600, KillAfter: 10}},
			{Job: 8, Payload: journal.Started{Pid: 11, StartTime: 10, BootID: "b-2"}},
			{Job: 8, Payload: journal.Signal{Signo: 15, By: "127.0.0.1:8", Ends: true}},
			{Job: 9, Payload: journal.Accepted{Target: "mail", Token: "@k7aaaaaai", From: journal.RowDelayed, Plan: &journal.Plan{RunAt: 1795000400, Schedule: "daily <02:30>"}, PlannedAt: 1795000400}},
			{Job: 10, Payload: journal.Accepted{Target: "mail", Token: "@k7aaaaaaj", Plan: &journal.Plan{}, PlannedAt: 1795000500}},
		},
		{
			{Job: -5, Payload: journal.Done{Result: "fail", Signal: "SIGKILL", Stdout: journal.Output{Kept: bytes.Repeat([]byte{0, 255}, 300), Size: 900}, Reason: "killed", Note: "by <somebody>"}},
			{Job: 1<<63 - 1, Payload: journal.Done{Result: "fail", Code: &three, Reason: "never started"}},
			{Job: 6, Payload: journal.Accepted{Target: "mail", Token: "@k7aaaaaag"}},
			{Job: 6, Payload: journal.Running{Attempt: 1}},
			{Job: 6, Payload: journal.Cancelled{By: "127.0.0.1:8", Token: "@k7aaaaaag"}},
			{Job: 7, Payload: journal.Ignored{Reason: "cancelled by 127.0.0.1", By: "127.0.0.1:8"}},
			{Job: -5, Payload: journal.Retried{Target: "mail", From: "done", To: "waiting", Result: "fail", Finished: 1795000007, By: "127.0.0.1:8"}},
			{Job: -5, Payload: journal.Conflict{Wanted: journal.WantedRetried, Reason: "the update was not committed: the row is done"}},
			{Job: 7, Payload: journal.Retried{Target: odd, From: "ignored", To: "manual", By: "127.0.0.1:8"}},
			{Job: 8, Payload: journal.Done{Result: "fail", Signal: "SIGTERM", Token: "@k7aaaaaah", Timeout: 600, Again: &journal.Again{RunAt: 1795000900, PlannedAt: 1795000300, Attempts: 3, Why: journal.AgainRetry}}},
			{Job: 8, Payload: journal.Replanned{Token: "@k7aaaaaah", Schedule: "hourly :15", Zone: "Europe/Berlin", Again: &journal.Again{RunAt: 1795003200, PlannedAt: 1795003200, Why: journal.AgainSchedule}}},
			{Job: 9, Payload: journal.Replanned{Token: "@k7another", Note: "its schedule can't be read"}}, // of an older claim
			{Job: 9, Payload: journal.Released{Reason: "shutdown", Target: "mail", Token: "@k7aaaaaai", From: journal.RowDelayed, Plan: &journal.Plan{RunAt: 1795000400, Schedule: "daily <02:30>"}}},
			{Job: 10, Payload: journal.Running{Attempt: 1, Token: "@k7aaaaaaj"}},
			{Job: 10, Payload: journal.Done{Result: "ok", Code: &zero, Token: "@k7aaaaaaj"}},
			{Job: 11, Payload: journal.Planned{Target: "mail", From: late, To: journal.Again{RunAt: 1795007777, PlannedAt: 1795007777, Why: journal.AgainSchedule}, Reason: "missed <its time>", By: "127.0.0.1:8"}},
			{Job: 12, Payload: journal.Ignored{Reason: "its schedule can't be read", Told: true}},
			worker(journal.Runner{Instance: "r-3.4712.9", Before: "r-2"}),
			worker(journal.Requested{Request: "pause", By: "ann (token, 127.0.0.1:9)", About: `targets=["<a>"]`}),
			worker(journal.Registered{Worker: name, Targets: []string{"mail", odd}, More: 3, By: "node-1 (cert, 127.0.0.1:9)", Times: 2}),
			worker(journal.Left{Worker: name, Reason: "it stops", By: "node-1 (cert, 127.0.0.1:9)", Times: 1}),
			worker(journal.Closed{Reason: "shutdown"}),
		},
	}
}

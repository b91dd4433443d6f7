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

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
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
	vectors, err := filepath.Abs(vectorsDir)
	if err != nil {
		t.Fatal(err)
	}
	fresh := t.TempDir()
	t.Chdir(fresh)
	writeVectors(t)
	events, headers := linesOf(t, joined(t, "journal", "archive"))
	if *updateVectors {
		replaceVectors(t, vectors, events, headers)
	}
	wantEvents, err := os.ReadFile(filepath.Join(vectors, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	wantHeaders, err := os.ReadFile(filepath.Join(vectors, "headers.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(wantEvents)+string(wantHeaders), events+headers); diff != "" {
		t.Errorf("what is written now is not what the vectors say:\n%s", diff)
	}
	dir := joined(t, filepath.Join(vectors, "journal"), filepath.Join(vectors, "archive"))
	events, headers = linesOf(t, dir)
	if diff := cmp.Diff(string(wantEvents)+string(wantHeaders), events+headers); diff != "" {
		t.Errorf("what is read of the vectors is not what their lines say:\n%s", diff)
	}
	for _, dir := range []string{dir, filepath.Join(vectors, "journal"), filepath.Join(vectors, "archive")} {
		if _, err := journaltest.VerifyAll(context.Background(), journaltest.OpenReader(t, dir)); err != nil {
			t.Error(err)
		}
	}
	for _, kind := range journal.Kinds() {
		if !strings.Contains(events, `"kind":"`+string(kind)+`"`) {
			t.Errorf("no event of the vectors is %q", kind)
		}
	}
}

// joined is copies of the files of several folders in one.
func joined(t *testing.T, dirs ...string) string {
	t.Helper()
	to := t.TempDir()
	for _, dir := range dirs {
		if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
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
		if err := encoder.Encode(value); err != nil {
			t.Fatal(err)
		}
	}
	err := journaltest.OpenReader(t, dir).Folder().Walk(t.Context(), 0, func(_ archive.Part, s archive.Source, h archive.Header) error {
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
	})
	if err != nil {
		t.Fatal(err)
	}
	return text[0].String(), text[1].String()
}

// replaceVectors replaces the vectors by the journal and archive in the folder that we are in.
func replaceVectors(t *testing.T, vectors, events, headers string) {
	t.Helper()
	for _, name := range []string{"journal", "archive"} {
		to := filepath.Join(vectors, name)
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(to, os.DirFS(name)); err != nil {
			t.Fatal(err)
		}
		for name := range journaltest.Listing(t, to) { // git keeps no other permissions
			if err := os.Chmod(filepath.Join(to, name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range map[string]string{"events.jsonl": events, "headers.jsonl": headers} {
		if err := os.WriteFile(filepath.Join(vectors, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"lock", "clock"} { // they say nothing of the history
		if err := archive.RemoveIfThere(filepath.Join(vectors, "journal", name)); err != nil {
			t.Fatal(err)
		}
	}
}

// writeVectors writes the vectors' journal, and its archive beside it, in the folder that we are
// in: four days, a segment each, of which the oldest goes to the archive on the third.
func writeVectors(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"journal", "archive"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
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
		j.SetPosition(journaltest.Snapshot(j).Seq)
		if i == 2 {
			journaltest.MustMaintain(t, j)
		}
		now = now.Add(24 * time.Hour)
	}
	j.Reopen(t, func(c *eventlog.Config) { c.Retention = 0 })
	journaltest.MustMaintain(t, j)
	journaltest.MustClose(t, j)
}

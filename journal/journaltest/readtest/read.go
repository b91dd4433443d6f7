// Package readtest has what tests of journals share that have no log of package eventlog, or test that itself: lives of
// jobs, a clock, and what a reader finds in a folder. It is linked by tests only.
//
// # The crash argument
//
// There is nothing to survive: it only reads, and damages what a test has made.
package readtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/replay"
	"jobd/journal/verify"
	"jobd/store/storetest/must"
)

// SegmentFile is the first segment's database.
const SegmentFile = "segment-00000001.db"

// HeadFormat is the head file, as a reader of the documentation would write it.
const HeadFormat = "jobd-head %020d %s\n"

// OpenReader opens the journal in a folder for reading.
func OpenReader(t testing.TB, dir string) *replay.Reader {
	t.Helper()
	r, err := replay.Open(dir)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return r
}

// Events reads everything that the filter selects.
func Events(t testing.TB, r *replay.Reader, f journal.Filter) []journal.Event {
	t.Helper()
	var all []journal.Event
	for e, err := range r.Events(context.Background(), f) {
		if err != nil {
			t.Fatalf("Events: %v", err)
		}
		all = append(all, e)
	}
	return all
}

// Drain reads everything that the filter selects, up to the first error.
func Drain(r *replay.Reader, f journal.Filter) error {
	for _, err := range r.Events(context.Background(), f) {
		if err != nil {
			return err
		}
	}
	return nil
}

// VerifyAll verifies the whole history, and gives the state after it.
func VerifyAll(ctx context.Context, r *replay.Reader) (*journal.State, error) {
	audited, err := verify.Audit(ctx, r.Folder(), nil, nil)
	return audited.State, err
}

// CopyFolder copies the files of a journal, whoever has them open.
func CopyFolder(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	must.Do(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

// Names lists the files of a folder.
func Names(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// Listing is every file of a folder with what tells that it was written to.
func Listing(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, name := range Names(t, dir) {
		path := filepath.Join(dir, name)
		info := must.Get(os.Stat(path))(t)
		content := must.Get(os.ReadFile(path))(t)
		files[name] = info.ModTime().String() + string(content)
	}
	return files
}

// StateAt folds the events up to a time; the zero time means all. It keeps jobs at their end.
func StateAt(ctx context.Context, r *replay.Reader, at time.Time) (*journal.State, error) {
	f := journal.Filter{Until: at, Output: true}
	if !at.IsZero() {
		f.Until = at.Truncate(time.Microsecond).Add(time.Microsecond)
	}
	state := &journal.State{KeepEnded: true}
	for e, err := range r.Events(ctx, f) {
		if err == nil {
			err = state.Apply(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return state, nil
}

// VerdictOn is what an auditor says.
func VerdictOn(ctx context.Context, dir string) error {
	r, err := replay.Open(dir)
	if err != nil {
		return err
	}
	_, err = VerifyAll(ctx, r)
	return err
}

// Tamper runs statements on a segment's database with the guards of its records off.
func Tamper(number int, statements ...string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		db := archive.OpenForWriting(archive.DatabasePath(dir, number))
		defer db.Close()
		guards := []string{"records_no_update", "records_no_delete"}
		for i, name := range guards {
			var text string
			must.Do(t, db.QueryRow(`SELECT sql FROM sqlite_schema WHERE name = ?`, name).Scan(&text))
			must.Get(db.Exec(`DROP TRIGGER ` + name))(t)
			guards[i] = text
		}
		for _, statement := range append(guards[:0:0], append(statements, guards...)...) {
			if strings.HasPrefix(statement, "DROP TRIGGER") { // a guard that must stay away
				guards = nil
				continue
			}
			if guards == nil && strings.Contains(statement, "records_no_update") {
				continue
			}
			if _, err := db.Exec(statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
}

// Base is when the tests' journals begin; their clock ticks by a second.
var Base = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)

// Ticking is a clock that moves on by a second whenever it is looked at.
func Ticking() func() time.Time {
	now := Base.Add(-time.Second)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

// WholeLife is a job's way from its claim to its end.
func WholeLife(job int64) []journal.Draft {
	code := int(job % 3)
	return []journal.Draft{
		{Job: job, Payload: journal.Accepted{Target: "t", Token: "@abcdefghi"}},
		{Job: job, Payload: journal.Running{Attempt: 1}},
		{Job: job, Payload: journal.Started{Pid: int(job), StartTime: 12345, BootID: "boot"}},
		{Job: job, Payload: journal.Done{Result: "ok", Code: &code, Stdout: journal.Output{Kept: []byte("out"), Size: 3}}},
	}
}

// Snapshot copies the state, as a View's may not be kept.
func Snapshot(j interface{ View(func(*journal.State)) }) (copied journal.State) {
	j.View(func(s *journal.State) {
		data, err := journal.EncodeCheckpoint(s)
		if err != nil {
			panic(err)
		}
		state, err := journal.DecodeCheckpoint(data)
		if err != nil {
			panic(err)
		}
		copied = *state
		copied.Seq, copied.Hash = s.Seq, s.Hash
	})
	return copied
}

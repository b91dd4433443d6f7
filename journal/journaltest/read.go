package journaltest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"jobd/journal"
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

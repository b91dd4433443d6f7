package replay_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/journaltest"
	"jobd/journal/verify"
)

// readAll uses everything that a reader has.
func readAll(t *testing.T, dir string) {
	t.Helper()
	r := journaltest.OpenReader(t, dir)
	ctx := t.Context()
	_, verifyErr := journaltest.VerifyAll(ctx, r)
	_, stateErr := r.State(ctx, journaltest.Base)
	_, newestErr := r.Newest(ctx)
	if err := errors.Join(verifyErr, stateErr, newestErr); err != nil {
		t.Fatal(err)
	}
	journaltest.Events(t, r, journal.Filter{Since: journaltest.Base, Until: journaltest.Base.Add(time.Hour), Last: 2, Target: "a", Output: true})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReaderLeavesNoTrace(t *testing.T) {
	t.Parallel()
	dir := history(t)
	before := journaltest.Listing(t, dir)
	readAll(t, dir)
	if diff := cmp.Diff(before, journaltest.Listing(t, dir)); diff != "" {
		t.Errorf("reading changed the folder: %s", diff)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	readAll(t, dir)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// What a crashed worker left in its write-ahead log is read, and stays there.
func TestReaderSeesWhatACrashLeft(t *testing.T) {
	t.Parallel()
	live := t.TempDir()
	j := journaltest.OpenTest(t, live)
	journaltest.MustAppend(t, j, journaltest.WholeLife(1)...)
	crashed := journaltest.CopyFolder(t, live)
	if err := os.Remove(filepath.Join(crashed, journaltest.SegmentFile+"-shm")); err != nil {
		t.Fatal(err)
	}
	before := journaltest.Listing(t, crashed)
	r := journaltest.OpenReader(t, crashed)
	if n := len(journaltest.Events(t, r, journal.Filter{})); n != 4 {
		t.Fatalf("%d events", n)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	after := journaltest.Listing(t, crashed)
	delete(after, journaltest.SegmentFile+"-shm")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("reading changed the folder: %s", diff)
	}
	if state := journaltest.Snapshot(journaltest.OpenTest(t, crashed)); state.Seq != 4 {
		t.Fatalf("the journal ends at %d", state.Seq)
	}
}

// A reader that is there before the worker sees what the worker appends, also
// when it is in the middle of an iteration.
func TestReaderMeetsAStartingWorker(t *testing.T) {
	t.Parallel()
	dir := journaltest.ClosedJournal(t, 4000) // more pages of events than are read ahead
	r := journaltest.OpenReader(t, dir)
	if n, err := r.Newest(t.Context()); err != nil || n != 16000 {
		t.Fatalf("newest %d, %v", n, err)
	}
	count := 0
	for _, err := range r.Events(t.Context(), journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if count++; count == 1 {
			j := journaltest.OpenTest(t, dir)
			for job := range int64(100) {
				journaltest.MustAppend(t, j, journaltest.WholeLife(job+5000)...)
			}
		}
	}
	if count != 16400 {
		t.Fatalf("%d events, want 16400", count)
	}
	if _, err := journaltest.VerifyAll(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// Pitfall 25: an iteration that pauses holds no snapshot, so the log can be emptied.
func TestPausedIterationDoesNotKeepTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := journaltest.OpenTest(t, dir)
	for job := range int64(1500) {
		journaltest.MustAppend(t, j, journaltest.WholeLife(job+1)...)
	}
	count := 0
	for _, err := range journaltest.OpenReader(t, dir).Events(t.Context(), journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if count++; count != 1 {
			continue
		}
		db := archive.OpenForWriting(filepath.Join(dir, journaltest.SegmentFile))
		_, err := db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(dir, journaltest.SegmentFile+"-wal")); err != nil || info.Size() != 0 {
			t.Fatalf("the log has %d bytes beside a paused reader (%v)", info.Size(), err)
		}
	}
	if count != 6000 {
		t.Fatalf("%d events", count)
	}
}

// Large outputs are read a few at a time, and let go of where nobody asks for them: they are read
// all the same, since their hash covers them.
func TestLargeOutputIsPaged(t *testing.T) {
	dir := t.TempDir()
	j := journaltest.OpenTest(t, dir)
	const jobs, size = 24, 2 << 20
	kept := bytes.Repeat([]byte("x"), size)
	for job := range int64(jobs) {
		journaltest.MustAppend(t, j, journal.Draft{Job: job + 1, Payload: journal.Accepted{Target: "t"}}, journal.Draft{Job: job + 1, Payload: journal.Running{Attempt: 1}},
			journal.Draft{Job: job + 1, Payload: journal.Done{Result: "ok", Stdout: journal.Output{Kept: kept, Size: size}}})
	}
	journaltest.MustClose(t, j)
	r := journaltest.OpenReader(t, dir)
	for name, c := range map[string]struct {
		filter journal.Filter
		most   uint64
		output int
	}{
		"with output":    {journal.Filter{Output: true, Kinds: []journal.Kind{journal.KindDone}}, 5 * maxPageBytes, size},
		"without output": {journal.Filter{Kinds: []journal.Kind{journal.KindDone}}, 5 * maxPageBytes, 0},
	} {
		runtime.GC()
		var before, now runtime.MemStats
		runtime.ReadMemStats(&before)
		count := 0
		for e, err := range r.Events(t.Context(), c.filter) {
			if err != nil {
				t.Fatal(err)
			}
			if done := e.Payload.(journal.Done); len(done.Stdout.Kept) != c.output || done.Stdout.Size != size {
				t.Fatalf("%s: %d bytes of output", name, len(done.Stdout.Kept))
			}
			count++
			runtime.GC()
			if runtime.ReadMemStats(&now); now.HeapAlloc > before.HeapAlloc+c.most {
				t.Fatalf("%s: %d bytes in use after %d events", name, now.HeapAlloc-before.HeapAlloc, count)
			}
		}
		if count != jobs {
			t.Fatalf("%s: %d events", name, count)
		}
	}
}

func TestReadingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	r := journaltest.OpenReader(t, history(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var damage *journal.DamagedError
	if _, err := journaltest.VerifyAll(ctx, r); !errors.Is(err, context.Canceled) || errors.As(err, &damage) {
		t.Errorf("Verify: %v", err)
	}
	for e, err := range r.Events(ctx, journal.Filter{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Events: %v, %v", e, err)
		}
	}
}

// A verification or a replay that is interrupted says so. It once took what it had not read for
// missing.
func TestInterruptedReadingIsNoDamage(t *testing.T) {
	t.Parallel()
	dir := journaltest.Large(t)
	r := journaltest.OpenReader(t, dir)
	for name, read := range map[string]func(context.Context, func()) error{
		"verify": func(ctx context.Context, cancel func()) error {
			_, err := verify.Audit(ctx, r.Folder(), nil, func(uint64) { cancel() })
			return err
		},
		"jobs": func(ctx context.Context, cancel func()) error {
			for _, err := range r.Jobs(ctx, time.Time{}) {
				if err != nil {
					return err
				}
				cancel()
			}
			return nil
		},
		"before it began": func(ctx context.Context, cancel func()) error {
			cancel()
			_, err := journaltest.VerifyAll(ctx, r)
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var damage *journal.DamagedError
		if err := read(ctx, cancel); !errors.Is(err, context.Canceled) || errors.As(err, &damage) {
			t.Errorf("%s: %v, not that it was interrupted", name, err)
		}
		cancel()
	}
}

// maxPageBytes is how much of payloads and output a segment gives at a time.
const maxPageBytes = 4 << 20

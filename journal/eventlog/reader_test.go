package eventlog

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/segment"
	"jobd/journal/verify"
)

// readAll uses everything that a reader has.
func readAll(t *testing.T, dir string) {
	t.Helper()
	r := openReader(t, dir)
	ctx := t.Context()
	_, verifyErr := verifyAll(ctx, r)
	_, stateErr := r.State(ctx, base)
	_, newestErr := r.Newest(ctx)
	_, positionErr := r.Position(ctx)
	if err := errors.Join(verifyErr, stateErr, newestErr, positionErr); err != nil {
		t.Fatal(err)
	}
	events(t, r, journal.Filter{Since: base, Until: base.Add(time.Hour), Last: 2, Target: "a", Output: true})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReaderLeavesNoTrace(t *testing.T) {
	t.Parallel()
	dir := history(t)
	before := listing(t, dir)
	readAll(t, dir)
	if diff := cmp.Diff(before, listing(t, dir)); diff != "" {
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
	j := openTest(t, live)
	mustAppend(t, j, wholeLife(1)...)
	crashed := copyFolder(t, live)
	if err := os.Remove(filepath.Join(crashed, segmentFile+"-shm")); err != nil {
		t.Fatal(err)
	}
	before := listing(t, crashed)
	r := openReader(t, crashed)
	if n := len(events(t, r, journal.Filter{})); n != 4 {
		t.Fatalf("%d events", n)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	after := listing(t, crashed)
	delete(after, segmentFile+"-shm")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("reading changed the folder: %s", diff)
	}
	if state := snapshot(openTest(t, crashed)); state.Seq != 4 {
		t.Fatalf("the journal ends at %d", state.Seq)
	}
}

// A reader that is there before the worker sees what the worker appends, also
// when it is in the middle of an iteration.
func TestReaderMeetsAStartingWorker(t *testing.T) {
	t.Parallel()
	dir := closedJournal(t, 4000) // more pages of events than are read ahead
	r := openReader(t, dir)
	if n, err := r.Newest(t.Context()); err != nil || n != 16000 {
		t.Fatalf("newest %d, %v", n, err)
	}
	count := 0
	for _, err := range r.Events(t.Context(), journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if count++; count == 1 {
			j := openTest(t, dir)
			for job := range int64(100) {
				mustAppend(t, j, wholeLife(job+5000)...)
			}
		}
	}
	if count != 16400 {
		t.Fatalf("%d events, want 16400", count)
	}
	if _, err := verifyAll(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// What was read from a database at rest is void when a worker wrote meanwhile.
func TestReaderReadsAgainWhatAWorkerChanged(t *testing.T) {
	t.Parallel()
	dir := closedJournal(t, 1)
	d := segment.ReadDatabase(filepath.Join(dir, segmentFile), nil, 0)
	defer d.Close()
	tries := 0
	err := d.Read(func(*sql.DB) error {
		if tries++; tries == 1 {
			j := openTest(t, dir)
			mustAppend(t, j, wholeLife(2)...)
			mustClose(t, j) // its write-ahead log came and went
			return errors.New("garbled")
		}
		return nil
	})
	if err != nil || tries != 2 {
		t.Fatalf("%d tries, %v", tries, err)
	}
}

// Pitfall 25: an iteration that pauses holds no snapshot, so the log can be emptied.
func TestPausedIterationDoesNotKeepTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	for job := range int64(1500) {
		mustAppend(t, j, wholeLife(job+1)...)
	}
	count := 0
	for _, err := range openReader(t, dir).Events(t.Context(), journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if count++; count != 1 {
			continue
		}
		if err := j.checkpoint(0); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(dir, segmentFile+"-wal")); err != nil || info.Size() != 0 {
			t.Fatalf("the log has %d bytes beside a paused reader (%v)", info.Size(), err)
		}
	}
	if count != 6000 {
		t.Fatalf("%d events", count)
	}
}

func TestRestEmptiesALargeLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	log := filepath.Join(dir, segmentFile+"-wal")
	large := journal.Output{Kept: noise(maxLog + 1), Size: maxLog + 1}
	mustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Accepted{Target: "t"}}, journal.Draft{Job: 1, Payload: journal.Running{Attempt: 1}}, journal.Draft{Job: 1, Payload: journal.Done{Result: "ok", Stdout: large}})
	if info, err := os.Stat(log); err != nil || info.Size() <= maxLog {
		t.Fatalf("the log has %d bytes (%v)", info.Size(), err)
	}
	if err := j.Rest(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(log); err != nil || info.Size() != 0 {
		t.Fatalf("the log has %d bytes (%v)", info.Size(), err)
	}
}

// Large outputs are read a few at a time, and let go of where nobody asks for them: they are read all the same, since their hash
// covers them.
func TestLargeOutputIsPaged(t *testing.T) {
	dir := t.TempDir()
	j := openTest(t, dir)
	const jobs, size = 24, 2 << 20
	kept := bytes.Repeat([]byte("x"), size)
	for job := range int64(jobs) {
		mustAppend(t, j, journal.Draft{Job: job + 1, Payload: journal.Accepted{Target: "t"}}, journal.Draft{Job: job + 1, Payload: journal.Running{Attempt: 1}},
			journal.Draft{Job: job + 1, Payload: journal.Done{Result: "ok", Stdout: journal.Output{Kept: kept, Size: size}}})
	}
	mustClose(t, j)
	r := openReader(t, dir)
	for name, c := range map[string]struct {
		filter journal.Filter
		most   uint64
		output int
	}{
		"with output":    {journal.Filter{Output: true, Kinds: []journal.Kind{journal.KindDone}}, 5 * segment.MaxPageBytes, size},
		"without output": {journal.Filter{Kinds: []journal.Kind{journal.KindDone}}, 5 * segment.MaxPageBytes, 0},
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
	r := openReader(t, history(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var damage *journal.DamagedError
	if _, err := verifyAll(ctx, r); !errors.Is(err, context.Canceled) || errors.As(err, &damage) {
		t.Errorf("Verify: %v", err)
	}
	for e, err := range r.Events(ctx, journal.Filter{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Events: %v, %v", e, err)
		}
	}
}

// A verification or a replay that is interrupted says so. It once took what it had not read for missing.
func TestInterruptedReadingIsNoDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := generate(dir, 40_000); err != nil {
		t.Fatal(err)
	}
	r := openReader(t, dir)
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
			_, err := verifyAll(ctx, r)
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

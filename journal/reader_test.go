package journal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// base is when the tests' journals begin; their clock ticks by a second.
var base = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)

func ticking() func() time.Time {
	now := base.Add(-time.Second)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

// history is a journal with everything a filter may ask for.
func history(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	j := openWith(t, Config{Dir: dir, Now: ticking()})
	claim := func(job int64, target string) Draft { return Draft{job, Accepted{Target: target}} }
	mustAppend(t, j, Draft{0, Opened{Name: "w", Targets: map[string]int{"a": 1, "3": 3}}})
	mustAppend(t, j, claim(1, "a"), claim(2, "b"))
	mustAppend(t, j, Draft{1, Running{1}}, Draft{2, Released{}})
	mustAppend(t, j, Draft{1, Started{Pid: 7}})
	mustAppend(t, j, Draft{0, Paused{Targets: []string{"a", "b"}}})
	mustAppend(t, j, Draft{1, Done{Result: "ok", Stdout: Output{Kept: []byte("hello"), Size: 5}}})
	mustAppend(t, j, claim(1, "b"), claim(2, "a")) // claimed again, for other targets
	mustAppend(t, j, Draft{0, TargetAdded{Target: "b", Concurrency: 3}})
	mustAppend(t, j, Draft{0, Continued{}}, Draft{1, Running{1}}, Draft{3, Ignored{}})
	mustAppend(t, j, Draft{1, Conflict{}}, Draft{2, Conflict{}})
	mustAppend(t, j, Draft{0, TargetRemoved{Target: "a"}}, Draft{0, ConcurrencySet{Target: "b", Concurrency: 3}}, Draft{0, Closed{}})
	mustClose(t, j)
	return dir
}

// naive is what a filter means.
func naive(all []Event, f Filter) []Event {
	targets := make(map[int64]string)
	var selected []Event
	for _, e := range all {
		if p, ok := e.Payload.(Accepted); ok {
			targets[e.Job] = p.Target
		}
		if e.Seq > f.After && (f.Job == 0 || e.Job == f.Job) &&
			(len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind())) &&
			(f.Target == "" || e.Job != 0 && targets[e.Job] == f.Target || e.Job == 0 && isAbout(e.Payload, f.Target)) &&
			(f.Since.IsZero() || !e.Time.Before(f.Since)) && (f.Until.IsZero() || e.Time.Before(f.Until)) {
			selected = append(selected, e)
		}
	}
	if f.Last > 0 {
		selected = selected[max(0, len(selected)-f.Last):]
	}
	return selected
}

func isAbout(p Payload, target string) bool {
	switch p := p.(type) {
	case Opened:
		_, ok := p.Targets[target]
		return ok
	case Paused:
		return slices.Contains(p.Targets, target)
	case Continued:
		return slices.Contains(p.Targets, target)
	case TargetAdded:
		return p.Target == target
	case TargetRemoved:
		return p.Target == target
	case ConcurrencySet:
		return p.Target == target
	}
	return false
}

func TestFilters(t *testing.T) {
	t.Parallel()
	r := openReader(t, history(t))
	all := events(t, r, Filter{Output: true})
	if len(all) != 19 {
		t.Fatalf("%d events", len(all))
	}
	rapid.Check(t, func(rt *rapid.T) {
		at := rapid.Custom(func(rt *rapid.T) time.Time {
			if rapid.Bool().Draw(rt, "none") {
				return time.Time{}
			}
			seconds := rapid.IntRange(-2, 14).Draw(rt, "seconds")
			return base.Add(time.Duration(seconds)*time.Second + time.Duration(rapid.SampledFrom([]int{-1, 0, 1, 999, 1000}).Draw(rt, "ns")))
		})
		f := Filter{
			After:  rapid.SampledFrom([]uint64{0, 0, 0, 1, 7, 20, 21}).Draw(rt, "after"),
			Job:    rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 3, 4}).Draw(rt, "job"),
			Kinds:  rapid.SliceOfN(rapid.SampledFrom([]Kind{KindAccepted, KindRunning, KindConflict, KindPaused, KindClosed, "unknown"}), 0, 3).Draw(rt, "kinds"),
			Target: rapid.SampledFrom([]string{"", "", "a", "b", "3", "c"}).Draw(rt, "target"),
			Since:  at.Draw(rt, "since"), Until: at.Draw(rt, "until"),
			Last:   rapid.SampledFrom([]int{0, 0, 1, 3, 100}).Draw(rt, "last"),
			Output: true,
		}
		if diff := cmp.Diff(naive(all, f), events(t, r, f)); diff != "" {
			rt.Fatalf("%+v: -naive +got: %s", f, diff)
		}
	})
}

func TestStateAtATime(t *testing.T) {
	t.Parallel()
	r := openReader(t, history(t))
	for _, c := range []struct {
		name string
		at   time.Time
		job1 Status
		job2 Status
		seq  uint64
	}{
		{"before the first event", base.Add(-1), StatusNone, StatusNone, 0},
		{"at an event", base.Add(time.Second), StatusAccepted, StatusAccepted, 3},
		{"a nanosecond before an event", base.Add(2*time.Second - 1), StatusAccepted, StatusAccepted, 3},
		{"after an event", base.Add(2*time.Second + 1), StatusStarting, StatusReleased, 5},
		{"ended", base.Add(5 * time.Second), StatusDone, StatusReleased, 8},
		{"now", time.Time{}, StatusConflict, StatusConflict, 19},
	} {
		state, err := r.State(t.Context(), c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got1, got2 := state.Job(1).Status, state.Job(2).Status; got1 != c.job1 || got2 != c.job2 || state.Seq != c.seq {
			t.Errorf("%s: jobs %q and %q at event %d, want %q and %q at %d", c.name, got1, got2, state.Seq, c.job1, c.job2, c.seq)
		}
	}
}

// readAll uses everything that a reader has.
func readAll(t *testing.T, dir string) {
	t.Helper()
	r := openReader(t, dir)
	ctx := t.Context()
	_, verifyErr := r.Verify(ctx)
	_, stateErr := r.State(ctx, base)
	_, newestErr := r.Newest(ctx)
	_, positionErr := r.Position(ctx)
	if err := errors.Join(verifyErr, stateErr, newestErr, positionErr); err != nil {
		t.Fatal(err)
	}
	events(t, r, Filter{Since: base, Until: base.Add(time.Hour), Last: 2, Target: "a", Output: true})
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
	if n := len(events(t, r, Filter{})); n != 4 {
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
	dir := closedJournal(t, 1000) // more than a page of events
	r := openReader(t, dir)
	if n, err := r.Newest(t.Context()); err != nil || n != 4000 {
		t.Fatalf("newest %d, %v", n, err)
	}
	count := 0
	for _, err := range r.Events(t.Context(), Filter{}) {
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
	if count != 4400 {
		t.Fatalf("%d events, want 4400", count)
	}
	if _, err := r.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What was read from a database at rest is void when a worker wrote meanwhile.
func TestReaderReadsAgainWhatAWorkerChanged(t *testing.T) {
	t.Parallel()
	dir := closedJournal(t, 1)
	r := openReader(t, dir)
	tries := 0
	err := r.read(func(*sql.DB) error {
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
	for _, err := range openReader(t, dir).Events(t.Context(), Filter{}) {
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
	large := Output{Kept: make([]byte, maxLog+1), Size: maxLog + 1}
	mustAppend(t, j, Draft{1, Accepted{Target: "t"}}, Draft{1, Running{1}}, Draft{1, Done{Result: "ok", Stdout: large}})
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

// Large outputs are read a few at a time, and not at all where nobody asks for them.
func TestLargeOutputIsPaged(t *testing.T) {
	dir := t.TempDir()
	j := openTest(t, dir)
	const jobs, size = 24, 2 << 20
	kept := bytes.Repeat([]byte("x"), size)
	for job := range int64(jobs) {
		mustAppend(t, j, Draft{job + 1, Accepted{Target: "t"}}, Draft{job + 1, Running{1}},
			Draft{job + 1, Done{Result: "ok", Stdout: Output{Kept: kept, Size: size}}})
	}
	mustClose(t, j)
	r := openReader(t, dir)
	for name, c := range map[string]struct {
		filter Filter
		most   uint64
		output int
	}{
		"with output":    {Filter{Output: true, Kinds: []Kind{KindDone}}, 5 * maxPageBytes, size},
		"without output": {Filter{Kinds: []Kind{KindDone}}, maxPageBytes / 2, 0},
	} {
		runtime.GC()
		var before, now runtime.MemStats
		runtime.ReadMemStats(&before)
		count := 0
		for e, err := range r.Events(t.Context(), c.filter) {
			if err != nil {
				t.Fatal(err)
			}
			if done := e.Payload.(Done); len(done.Stdout.Kept) != c.output || done.Stdout.Size != size {
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
	var damage *DamagedError
	if _, err := r.Verify(ctx); !errors.Is(err, context.Canceled) || errors.As(err, &damage) {
		t.Errorf("Verify: %v", err)
	}
	for e, err := range r.Events(ctx, Filter{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Events: %v, %v", e, err)
		}
	}
}

func TestClaimOfAJob(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	for n := range 3 {
		mustAppend(t, j, Draft{1, Accepted{Target: "t", Token: fmt.Sprint(n)}}, Draft{1, Released{}})
	}
	for seq, want := range map[uint64]string{2: "0", 3: "0", 4: "1", 5: "1", 6: "2", 99: "2"} {
		if claim, err := j.Claim(t.Context(), 1, seq); err != nil || claim.Token != want {
			t.Errorf("before %d: %+v, %v", seq, claim, err)
		}
	}
	if _, err := j.Claim(t.Context(), 1, 1); err == nil {
		t.Error("a claim before the first event")
	}
	if _, err := j.Claim(t.Context(), 2, 99); err == nil {
		t.Error("a claim of a job that never was")
	}
}

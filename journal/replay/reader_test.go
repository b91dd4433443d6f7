package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
	"jobd/journal/verify"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// readAll uses everything that a reader has.
func readAll(t *testing.T, dir string) {
	t.Helper()
	r := readtest.OpenReader(t, dir)
	ctx := t.Context()
	_, verifyErr := readtest.VerifyAll(ctx, r)
	_, stateErr := readtest.StateAt(ctx, r, readtest.Base)
	_, newestErr := r.Newest(ctx)
	must.Do(t, errors.Join(verifyErr, stateErr, newestErr))
	readtest.Events(t, r, journal.Filter{Since: readtest.Base, Until: readtest.Base.Add(time.Hour), Last: 2, Target: "a", Output: true})
}

func TestReaderLeavesNoTrace(t *testing.T) {
	t.Parallel()
	dir := history(t)
	before := readtest.Listing(t, dir)
	readAll(t, dir)
	check.Equal(t, cmp.Diff(before, readtest.Listing(t, dir)), "", "reading changed the folder")
	must.Do(t, os.Chmod(dir, 0o500))
	readAll(t, dir)
	must.Do(t, os.Chmod(dir, 0o700))
}

// What a crashed worker left in its write-ahead log is read, and stays there.
func TestReaderSeesWhatACrashLeft(t *testing.T) {
	t.Parallel()
	live := t.TempDir()
	j := journaltest.OpenTest(t, live)
	journaltest.MustAppend(t, j, readtest.WholeLife(1)...)
	crashed := readtest.CopyFolder(t, live)
	must.Do(t, os.Remove(filepath.Join(crashed, readtest.SegmentFile+"-shm")))
	before := readtest.Listing(t, crashed)
	r := readtest.OpenReader(t, crashed)
	must.Equal(t, len(readtest.Events(t, r, journal.Filter{})), 4, "events")
	after := readtest.Listing(t, crashed)
	delete(after, readtest.SegmentFile+"-shm")
	check.Equal(t, cmp.Diff(before, after), "", "reading changed the folder")
	state := readtest.Snapshot(journaltest.OpenTest(t, crashed))
	must.Equal(t, state.Seq, 4, "the journal ends at")
}

// A reader that is there before the worker sees what the worker appends, also
// when it is in the middle of an iteration.
func TestReaderMeetsAStartingWorker(t *testing.T) {
	t.Parallel()
	dir := journaltest.ClosedJournal(t, 4000) // more pages of events than are read ahead
	r := readtest.OpenReader(t, dir)
	must.Equal(t, must.Get(r.Newest(t.Context()))(t), 16000, "newest")
	count := 0
	for _, err := range r.Events(t.Context(), journal.Filter{}) {
		must.Do(t, err)
		if count++; count == 1 {
			j := journaltest.OpenTest(t, dir)
			for job := range int64(100) {
				journaltest.MustAppend(t, j, readtest.WholeLife(job+5000)...)
			}
		}
	}
	must.Equal(t, count, 16400, "events")
	must.Get(readtest.VerifyAll(t.Context(), r))(t)
}

// Pitfall 25: an iteration that pauses holds no snapshot, so the log can be emptied.
func TestPausedIterationDoesNotKeepTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := journaltest.OpenTest(t, dir)
	for job := range int64(1500) {
		journaltest.MustAppend(t, j, readtest.WholeLife(job+1)...)
	}
	count := 0
	for _, err := range readtest.OpenReader(t, dir).Events(t.Context(), journal.Filter{}) {
		must.Do(t, err)
		if count++; count != 1 {
			continue
		}
		db := archive.OpenForWriting(filepath.Join(dir, readtest.SegmentFile))
		_, err := db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
		must.Do(t, errors.Join(err, db.Close()))
		info := must.Get(os.Stat(filepath.Join(dir, readtest.SegmentFile+"-wal")))(t)
		must.Equal(t, info.Size(), 0, "the log has … bytes beside a paused reader")
	}
	must.Equal(t, count, 6000, "events")
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
	r := readtest.OpenReader(t, dir)
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
			must.Do(t, err)
			if done := e.Payload.(journal.Done); len(done.Stdout.Kept) != c.output || done.Stdout.Size != size {
				t.Fatalf("%s: %d bytes of output", name, len(done.Stdout.Kept))
			}
			count++
			runtime.GC()
			if runtime.ReadMemStats(&now); now.HeapAlloc > before.HeapAlloc+c.most {
				t.Fatalf("%s: %d bytes in use after %d events", name, now.HeapAlloc-before.HeapAlloc, count)
			}
		}
		must.Equal(t, count, jobs, "%s: … events", name)
	}
}

// A verification or a replay that is interrupted says so. It once took what it had not read for
// missing.
func TestInterruptedReadingIsNoDamage(t *testing.T) {
	t.Parallel()
	r := readtest.OpenReader(t, journaltest.Large(t))
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
		"events": func(ctx context.Context, cancel func()) (err error) {
			for _, err = range r.Events(ctx, journal.Filter{}) {
				cancel()
			}
			return err
		},
		"before it began": func(ctx context.Context, cancel func()) error {
			cancel()
			_, err := readtest.VerifyAll(ctx, r)
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

func TestRemovedHistoryIsToldAsSuch(t *testing.T) {
	t.Parallel()
	j := journaltest.Rolled(t, 3, 2) // 30 events
	r := readtest.OpenReader(t, j.Dir)
	if removed, err := r.Kept(t.Context()); err != nil || removed != nil {
		t.Fatalf("of a whole history: %v, %v", removed, err)
	}
	last := readtest.Events(t, r, journal.Filter{Last: 21})[0] // event 10, the last of segment 1
	journaltest.MustMaintain(t, j)
	j.SetPosition(30)
	j.Reopen(t, func(c *eventlog.Config) { c.Retention = time.Nanosecond })
	j.At(last.Time.Add(time.Microsecond)) // only segment 1 is old enough
	journaltest.MustMaintain(t, j)
	want := &journal.RemovedError{First: 11, Since: last.Time}
	removed, err := r.Kept(t.Context())
	if err != nil || cmp.Diff(want, removed) != "" {
		t.Fatalf("%v, %v, not %v", removed, err, want)
	}
	for name, read := range map[string]func() error{
		"events behind one that is gone": func() error { return readtest.Drain(r, journal.Filter{After: 9}) },
		"jobs at a time before": func() error {
			for _, err := range r.Jobs(t.Context(), last.Time.Add(-time.Microsecond)) {
				return err
			}
			return nil
		},
	} {
		var got *journal.RemovedError
		if err := read(); !errors.As(err, &got) || cmp.Diff(want, got) != "" {
			t.Errorf("%s: %v, not %v", name, err, want)
		}
	}
	for name, read := range map[string]func() error{
		"events behind the last that is gone": func() error { return readtest.Drain(r, journal.Filter{After: 10}) },
		"all events":                          func() error { return readtest.Drain(r, journal.Filter{}) },
	} {
		check.Do(t, read(), "%s", name)
	}
}

// history is a journal with everything a filter may ask for.
func history(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	j := journaltest.OpenWith(t, eventlog.Config{Dir: dir, Now: readtest.Ticking()})
	claim := func(job int64, target string) journal.Draft {
		return journal.Draft{Job: job, Payload: journal.Accepted{Target: target}}
	}
	journaltest.MustAppend(t, j, journal.Draft{Job: 0, Payload: journal.Opened{Name: "w", Targets: map[string]int{"a": 1, "3": 3}}})
	journaltest.MustAppend(t, j, claim(1, "a"), claim(2, "b"))
	journaltest.MustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Running{Attempt: 1}}, journal.Draft{Job: 2, Payload: journal.Released{}})
	journaltest.MustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Started{Pid: 7}})
	journaltest.MustAppend(t, j, journal.Draft{Job: 0, Payload: journal.Paused{Targets: []string{"a", "b"}}})
	journaltest.MustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Done{Result: "ok", Stdout: journal.Output{Kept: []byte("hello"), Size: 5}}})
	journaltest.MustAppend(t, j, claim(1, "b"), claim(2, "a")) // claimed again, for other targets
	journaltest.MustAppend(t, j, journal.Draft{Job: 0, Payload: journal.TargetAdded{Target: "b", Concurrency: 3, By: "me:7"}})
	journaltest.MustAppend(t, j, journal.Draft{Job: 0, Payload: journal.Continued{By: "me"}}, journal.Draft{Job: 1, Payload: journal.Running{Attempt: 1}}, journal.Draft{Job: 3, Payload: journal.Ignored{}})
	journaltest.MustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Conflict{}}, journal.Draft{Job: 2, Payload: journal.Conflict{}})
	journaltest.MustAppend(t, j, journal.Draft{Job: 0, Payload: journal.TargetRemoved{Target: "a"}}, journal.Draft{Job: 0, Payload: journal.ConcurrencySet{Target: "b", Concurrency: 3}}, journal.Draft{Job: 0, Payload: journal.Closed{}})
	journaltest.MustClose(t, j)
	return dir
}

// naive is what a filter means.
func naive(all []journal.Event, f journal.Filter) []journal.Event {
	targets := make(map[int64]string)
	var selected []journal.Event
	for _, e := range all {
		if p, ok := e.Payload.(journal.Accepted); ok {
			targets[e.Job] = p.Target
		}
		if e.Seq > f.After && (f.Job == 0 || e.Job == f.Job) &&
			(len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind())) &&
			(f.Target == "" || e.Job != 0 && targets[e.Job] == f.Target || e.Job == 0 && isAbout(e.Payload, f.Target)) &&
			(f.Result == "" && f.By == "" || f.Says(e.Payload)) &&
			(f.Since.IsZero() || !e.Time.Before(f.Since)) && (f.Until.IsZero() || e.Time.Before(f.Until)) {
			selected = append(selected, e)
		}
	}
	if f.Last > 0 {
		selected = selected[max(0, len(selected)-f.Last):]
	}
	return selected
}

func isAbout(p journal.Payload, target string) bool {
	switch p := p.(type) {
	case journal.Opened:
		_, ok := p.Targets[target]
		return ok
	case journal.Paused:
		return slices.Contains(p.Targets, target)
	case journal.Continued:
		return slices.Contains(p.Targets, target)
	case journal.TargetAdded:
		return p.Target == target
	case journal.TargetRemoved:
		return p.Target == target
	case journal.ConcurrencySet:
		return p.Target == target
	}
	return false
}

func TestFilters(t *testing.T) {
	t.Parallel()
	r := readtest.OpenReader(t, history(t))
	all := readtest.Events(t, r, journal.Filter{Output: true})
	must.Equal(t, len(all), 19, "events")
	rapid.Check(t, func(rt *rapid.T) {
		at := rapid.Custom(func(rt *rapid.T) time.Time {
			if rapid.Bool().Draw(rt, "none") {
				return time.Time{}
			}
			seconds := rapid.IntRange(-2, 14).Draw(rt, "seconds")
			return readtest.Base.Add(time.Duration(seconds)*time.Second + time.Duration(rapid.SampledFrom([]int{-1, 0, 1, 999, 1000}).Draw(rt, "ns")))
		})
		f := journal.Filter{
			After:  rapid.SampledFrom([]uint64{0, 0, 0, 1, 7, 20, 21}).Draw(rt, "after"),
			Job:    rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 3, 4}).Draw(rt, "job"),
			Kinds:  rapid.SliceOfN(rapid.SampledFrom([]journal.Kind{journal.KindAccepted, journal.KindRunning, journal.KindConflict, journal.KindPaused, journal.KindClosed, "unknown"}), 0, 3).Draw(rt, "kinds"),
			Target: rapid.SampledFrom([]string{"", "", "a", "b", "3", "c"}).Draw(rt, "target"),
			Since:  at.Draw(rt, "since"), Until: at.Draw(rt, "until"),
			Last:   rapid.SampledFrom([]int{0, 0, 1, 3, 100}).Draw(rt, "last"),
			Result: rapid.SampledFrom([]string{"", "", "ok", "fail"}).Draw(rt, "result"),
			By:     rapid.SampledFrom([]string{"", "", "me"}).Draw(rt, "by"),
			Output: true,
		}
		must.Equal(rt, cmp.Diff(naive(all, f), readtest.Events(t, r, f)), "", "%+v: -naive +", f)
	})
}

func TestClaimOfAJob(t *testing.T) {
	t.Parallel()
	j := journaltest.OpenTest(t, t.TempDir())
	for n := range 3 {
		journaltest.MustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Accepted{Target: "t", Token: fmt.Sprint(n)}}, journal.Draft{Job: 1, Payload: journal.Released{}})
	}
	for seq, want := range map[uint64]string{2: "0", 3: "0", 4: "1", 5: "1", 6: "2", 99: "2"} {
		claim := must.Get(j.Claim(t.Context(), 1, seq))(t)
		check.Equal(t, claim.Token, want, "before %d: %+v", seq, claim)
	}
	if _, err := j.Claim(t.Context(), 1, 1); err == nil {
		t.Error("a claim before the first event")
	}
	if _, err := j.Claim(t.Context(), 2, 99); err == nil {
		t.Error("a claim of a job that never was")
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The newest events of a job that has very many are found, and those of one that has few, far behind them.
func TestNewestOfManyEventsOfAJob(t *testing.T) {
	t.Parallel()
	j := journaltest.OpenTest(t, t.TempDir())
	first := journaltest.MustAppend(t, j, readtest.WholeLife(1)...)
	var drafts []journal.Draft
	for range 1000 {
		drafts = append(drafts, journal.Draft{Job: 2, Payload: journal.Accepted{Target: "t", Token: "x"}}, journal.Draft{Job: 2, Payload: journal.Released{}})
	}
	var last []journal.Event
	for range 40 {
		last = journaltest.MustAppend(t, j, drafts...)
	}
	r := readtest.OpenReader(t, j.Dir)
	for job, want := range map[int64][]journal.Event{1: first[len(first)-3:], 2: last[len(last)-3:]} {
		got := readtest.Events(t, r, journal.Filter{Job: job, Last: 3})
		for i := range want {
			if len(got) != len(want) || got[i].Seq != want[i].Seq {
				t.Errorf("job %d: %v, want %v", job, got, want)
				break
			}
		}
	}
}

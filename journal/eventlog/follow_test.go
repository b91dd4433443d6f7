package eventlog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// following is what a follower that waits behind an event will be given, and why it waits no more.
func following(t *testing.T, j *Log, after uint64) (given chan []journal.Event, ended chan error) {
	t.Helper()
	given, ended = make(chan []journal.Event, 1), make(chan error, 1)
	go func() {
		events, err := j.Next(t.Context(), after, 10)
		given <- events
		ended <- err
	}()
	eventually(t, "the follower waits", func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.grown != nil
	})
	return given, ended
}

func TestNextWaitsForTheNextEvent(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	given, ended := following(t, j, 0)
	must.Equal(t, len(given), 0, "events before there is one")
	want := mustAppend(t, j, wholeLife(1)...)
	must.Equal(t, cmp.Diff(want, <-given), "")
	must.Do(t, <-ended)
}

func TestNextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// No disk: a connection's goroutine would not be of this bubble.
		j := &Log{}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if _, err := j.Next(ctx, 0, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Next: %v", err)
		}
	})

	j := openTest(t, t.TempDir())
	mustAppend(t, j, wholeLife(1)...)
	_, ended := following(t, j, 4)
	mustClose(t, j)
	check.ErrorIs(t, <-ended, journal.ErrClosed, "Next during Close")
	for _, after := range []uint64{0, 4} {
		if _, err := j.Next(t.Context(), after, 1); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("Next after %d, after Close: %v", after, err)
		}
	}
	if _, err := j.Append(wholeLife(2)...); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
}

// Whether from memory or from disk, the follower gets every event once and in order.
func TestNextGivesEverything(t *testing.T) {
	t.Parallel()
	large := journal.Output{Kept: make([]byte, maxRecentBytes/3), Size: maxRecentBytes / 3}
	for name, c := range map[string]struct {
		jobs   int64
		output journal.Output
		forget bool
		limit  int
	}{
		"from memory":                  {100, journal.Output{}, false, 7},
		"without a limit":              {100, journal.Output{}, false, 0},
		"with a negative limit":        {100, journal.Output{}, false, -1},
		"more than memory may hold":    {maxRecentEvents, journal.Output{}, false, 1000},
		"larger than memory may hold":  {10, large, false, 1000},
		"one larger than memory holds": {2, journal.Output{Kept: make([]byte, maxRecentBytes+1), Size: maxRecentBytes + 1}, false, 1000},
		"forgotten":                    {100, journal.Output{}, true, 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := openTest(t, t.TempDir())
			var last uint64
			for job := range c.jobs {
				appended := mustAppend(t, j, journal.Draft{Job: job + 1, Payload: journal.Accepted{Target: "t"}}, journal.Draft{Job: job + 1, Payload: journal.Running{Attempt: 1}},
					journal.Draft{Job: job + 1, Payload: journal.Done{Result: "ok", Stdout: c.output}})
				last = appended[2].Seq
			}
			if len(j.recent.events) > maxRecentEvents || j.recent.bytes > maxRecentBytes {
				t.Fatalf("%d events of %d bytes are kept", len(j.recent.events), j.recent.bytes)
			}
			if c.forget {
				j.SetPosition(last / 2)
			}
			var after uint64
			for after < last {
				events, err := j.Next(t.Context(), after, c.limit)
				if err != nil || len(events) == 0 || c.limit > 0 && len(events) > c.limit {
					t.Fatalf("after %d: %d events, %v", after, len(events), err)
				}
				for _, e := range events {
					done, isDone := e.Payload.(journal.Done)
					if e.Seq != after+1 || isDone && len(done.Stdout.Kept) != len(c.output.Kept) {
						t.Fatalf("event %d after %d", e.Seq, after)
					}
					after = e.Seq
				}
			}
			must.Equal(t, after, last, "the follower got to … of")
		})
	}
}

func TestMemoryOfWhatIsMirroredIsFreed(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	mustAppend(t, j, wholeLife(1)...)
	j.SetPosition(3)
	if n := len(j.recent.events); n != 1 || j.recent.bytes != j.recent.events[0].Weight() {
		t.Fatalf("%d events of %d bytes are kept", n, j.recent.bytes)
	}
	j.SetPosition(4)
	if len(j.recent.events) != 0 || j.recent.bytes != 0 {
		t.Fatalf("%d bytes are kept", j.recent.bytes)
	}
}

// A follower that is far behind asked for 512 events at a time, and each time four thousand more were read
// ahead and thrown away. What is far behind the limit costs nothing.
func TestNextReadsNoFurtherThanAsked(t *testing.T) {
	const asked = 100
	costs := func(jobs int64) float64 {
		j := openTest(t, t.TempDir())
		for first := int64(1); first <= jobs; first += 500 {
			var drafts []journal.Draft
			for job := first; job < first+500; job++ {
				drafts = append(drafts, wholeLife(job)...)
			}
			mustAppend(t, j, drafts...)
		}
		j.recent = recent{}
		return testing.AllocsPerRun(5, func() {
			events := must.Get(j.Next(t.Context(), 0, asked))(t)
			must.Equal(t, len(events), asked, "events")
		})
	}
	if few, many := costs(500), costs(3000); many > few*1.5 {
		t.Errorf("%d events take %.0f allocations where 2,000 follow, and %.0f where 12,000 do", asked, few, many)
	}
}

func snapshotSeq(j *Log) (seq uint64) {
	j.View(func(s *journal.State) { seq = s.Seq })
	return seq
}

// The log's own reader keeps connections and the ends of files. It sees each append all the same, through
// roll-overs, sealing and retention, and neither files that are gone nor a write-ahead log are left behind.
func TestReaderKeepsUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now()
	j := openWith(t, Config{Dir: dir, Now: func() time.Time { return now }, Retention: 3 * defaultSegmentAge, NoTable: true})
	count := func(job int64) (n int) {
		t.Helper()
		for _, err := range j.Reader().Events(t.Context(), journal.Filter{Job: job, Last: 100}) {
			must.Do(t, err)
			n++
		}
		return n
	}
	for job := range int64(12) {
		mustAppend(t, j, wholeLife(job+1)...)
		check.Equal(t, count(job+1), len(wholeLife(1)), "job %d has … events", job+1)
		mustAppend(t, j, wholeLife(99)...)
		if job < 3 && count(99) != int(job+1)*len(wholeLife(1)) {
			t.Errorf("%d events of a job that runs again and again", count(99))
		}
		now = now.Add(defaultSegmentAge)
		if job%2 == 0 {
			mustMaintain(t, j)
		}
	}
	check.Equal(t, count(1), 0, "of a job that retention has removed there are … events")
	open := 0
	for _, fd := range must.Get(os.ReadDir("/proc/self/fd"))(t) {
		if path, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && strings.HasPrefix(path, dir) && strings.HasSuffix(path, "(deleted)") {
			open++
		}
	}
	if open > 3 { // a database, its log and its index, until another one is read
		t.Errorf("%d files are open that are gone", open)
	}
	must.Do(t, j.Close())
	for _, name := range names(t, dir) {
		if strings.HasSuffix(name, "-wal") || strings.HasSuffix(name, "-shm") {
			t.Errorf("a closed journal has a file %s", name)
		}
	}
}

func TestPitfall23TheReserve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := must.Get(OpenReserve(dir, 8<<20))(t)
	free := int64(100 << 20)
	r.free = func(string) (int64, int64, error) { return free, 1 << 40, nil }
	size := func() int64 {
		info := must.Get(os.Stat(filepath.Join(dir, reserveFile)))(t)
		return info.Size()
	}
	if err := r.Check(); err != nil || size() != 2<<20 {
		t.Fatalf("with room: %v, reserve of %d bytes", err, size())
	}
	free = 8<<20 - 1
	if err := r.Check(); err == nil || !strings.Contains(err.Error(), ": only 7 MiB of its disk are free, and 8 MiB are needed") {
		t.Errorf("below the threshold: %v", err)
	}
	if since, err := r.Low(); err == nil || since.IsZero() {
		t.Errorf("since when is not told: %v, %v", since, err)
	} else if again, _ := r.Low(); again != since {
		t.Errorf("it is since %v, and then since %v", since, again)
	}
	r.Release()
	check.Equal(t, size(), 0, "after the release the reserve has … bytes")
	free = 9 << 20
	if err := r.Check(); err != nil || size() != 0 {
		t.Errorf("just above the threshold: %v, reserve of %d bytes, which there is no room for yet", err, size())
	}
	if since, err := r.Low(); err != nil || !since.IsZero() {
		t.Errorf("it is still told since %v: %v", since, err)
	}
	free = 20 << 20
	if err := r.Check(); err != nil || size() != 2<<20 {
		t.Errorf("with room again: %v, reserve of %d bytes", err, size())
	}
	check.Do(t, r.Close())
	check.Do(t, r.Close(), "closed twice")
}

func TestTheThresholdIsATenthOfASmallDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, total, err := freeSpace(dir)
	must.Do(t, err)
	r := must.Get(OpenReserve(dir, total))(t)
	check.Equal(t, r.threshold, total/10, "threshold … on a disk of %d bytes", total)
}

package eventlog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
)

func TestNextWaitsForTheNextEvent(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	got := make(chan []journal.Event)
	go func() {
		events, err := j.Next(t.Context(), 0, 10)
		if err != nil {
			t.Errorf("Next: %v", err)
		}
		got <- events
	}()
	eventually(t, "the follower waits", func() bool { return followed(j) })
	select {
	case events := <-got:
		t.Fatalf("%d events before there is one", len(events))
	default:
	}
	want := mustAppend(t, j, wholeLife(1)...)
	if diff := cmp.Diff(want, <-got); diff != "" {
		t.Fatal(diff)
	}
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
	ended := make(chan error)
	go func() {
		_, err := j.Next(t.Context(), 4, 1)
		ended <- err
	}()
	eventually(t, "the follower waits", func() bool { return followed(j) })
	mustClose(t, j)
	if err := <-ended; !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Next during Close: %v", err)
	}
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
			if after != last {
				t.Fatalf("the follower got to %d of %d", after, last)
			}
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
			if events, err := j.Next(t.Context(), 0, asked); err != nil || len(events) != asked {
				t.Fatalf("%d events, %v", len(events), err)
			}
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

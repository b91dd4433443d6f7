package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/journal/verify"
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

// pacedFor is how long BenchmarkWriterBesideReaders writes, without and with readers.
var pacedFor = flag.Duration("paced", 2*time.Second, "how long BenchmarkWriterBesideReaders writes, each time")

const (
	pacedJobs = 1000 // a second
	atOnce    = 256  // jobs under way at most, as many as a busy worker runs
)

// paced is what a writer achieved at a fixed pace.
type paced struct {
	Jobs    float64       // a second
	Median  time.Duration // of an append
	P99     time.Duration
	Longest time.Duration
}

// childPaces appends a thousand jobs a second, four events each, one after the other, as the
// goroutines of so many jobs do, and prints what it achieved.
func childPaces() {
	span, err := time.ParseDuration(os.Args[2])
	if err != nil {
		panic(err)
	}
	j, err := Open(context.Background(), Config{Dir: os.Args[1]})
	if err != nil {
		panic(err)
	}
	go func() { _ = j.Run(context.Background()) }()
	p, err := paceJobs(j, span)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(p)
	}
	if err != nil {
		panic(err)
	}
	if err := j.Close(); err != nil {
		panic(err)
	}
}

func paceJobs(j *Log, span time.Duration) (paced, error) {
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		took   []time.Duration
		failed atomic.Pointer[error]
		slots  = make(chan struct{}, atOnce)
		begun  = time.Now()
		first  = int64(snapshotSeq(j)) + 1
	)
	jobs := int(span.Seconds() * pacedJobs)
	for n := range jobs {
		<-time.After(time.Until(begun.Add(time.Duration(n) * time.Second / pacedJobs)))
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			for _, draft := range wholeLife(first + int64(n)) {
				at := time.Now()
				if _, err := j.Append(draft); err != nil {
					failed.Store(&err)
				}
				mu.Lock()
				took = append(took, time.Since(at))
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return paced{}, *err
	}
	elapsed := time.Since(begun)
	slices.Sort(took)
	return paced{float64(jobs) / elapsed.Seconds(), took[len(took)/2], took[len(took)*99/100], took[len(took)-1]}, nil
}

func snapshotSeq(j *Log) (seq uint64) {
	j.View(func(s *journal.State) { seq = s.Seq })
	return seq
}

// startPacing starts a writer in a process of its own.
func startPacing(b *testing.B, dir string) (wait func() paced) {
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(program, dir, pacedFor.String())
	cmd.Env = append(os.Environ(), childVariable+"=pace")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return func() (p paced) {
		if err := json.NewDecoder(out).Decode(&p); err != nil {
			b.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
		return p
	}
}

// BenchmarkWriterBesideReaders measures what a writer of a thousand jobs a second loses while
// jobctl reads its folder with every command, each in a loop and all at once:
//
//	go test ./journal -run '^$' -bench BesideReaders -benchtime 1x -history 1000000 -paced 20s -jobctl $PWD/bin/jobctl
func BenchmarkWriterBesideReaders(b *testing.B) {
	dir := b.TempDir()
	if err := generate(dir, *historyEvents); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		alone := startPacing(b, dir)()
		wait := startPacing(b, dir)
		stop := startReading(b, dir)
		beside := wait()
		reads := stop()
		b.Logf("alone:  %+v", alone)
		b.Logf("beside: %+v, while jobctl read: %s", beside, reads)
		b.ReportMetric(alone.Jobs, "jobs/s-alone")
		b.ReportMetric(beside.Jobs, "jobs/s-beside")
		b.ReportMetric(float64(alone.P99.Microseconds()), "µs-p99-alone")
		b.ReportMetric(float64(beside.P99.Microseconds()), "µs-p99-beside")
	}
}

// BenchmarkWriterBesideReadersWithin measures the same where the writer's own process reads, as a
// worker does for clients: verifying in a loop, twice at once, at full speed and giving way.
func BenchmarkWriterBesideReadersWithin(b *testing.B) {
	for _, c := range []struct {
		name     string
		readers  int
		givesWay bool
	}{{"alone", 0, false}, {"at full speed", 2, false}, {"giving way", 2, true}} {
		b.Run(c.name, func(b *testing.B) {
			dir := b.TempDir()
			if err := generate(dir, *historyEvents); err != nil {
				b.Fatal(err)
			}
			j := openWith(b, Config{Dir: dir})
			ctx, cancel := context.WithCancel(context.Background())
			var group sync.WaitGroup
			var verified atomic.Int64
			for range c.readers {
				group.Go(func() { verified.Add(verifyUntil(ctx, b, dir, c.givesWay)) })
			}
			b.ResetTimer()
			for b.Loop() {
				p, err := paceJobs(j, *pacedFor)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(p.Jobs, "jobs/s")
				b.ReportMetric(float64(p.P99.Microseconds()), "µs-p99")
			}
			cancel()
			group.Wait()
			b.ReportMetric(float64(verified.Load())/b.Elapsed().Seconds(), "events-verified/s")
		})
	}
}

func verifyUntil(ctx context.Context, b *testing.B, dir string, givesWay bool) (events int64) {
	r, err := replay.Open(dir)
	if err != nil {
		b.Error(err)
		return 0
	}
	defer r.Close()
	if givesWay {
		r.GiveWay()
	}
	for {
		audited, err := verify.Audit(ctx, r.Folder(), nil, nil)
		if ctx.Err() != nil {
			return events
		}
		if err != nil {
			b.Error(err)
			return events
		}
		events += int64(audited.State.Seq)
	}
}

// startReading reads with every command in a loop, until it is stopped; it then tells how often
// each was run.
func startReading(b *testing.B, dir string) (stop func() string) {
	if *jobctl == "" {
		b.Fatal("-jobctl is needed: the program that reads")
	}
	ctx, cancel := context.WithCancel(context.Background())
	commands := [][]string{
		{"log"},
		{"log", "--follow"},
		{"show", "7"},
		{"state"},
		{"stats"},
		{"verify"},
		{"conflicts"},
		{"export"},
		{"anchor"},
	}
	counts := make([]int, len(commands))
	var group sync.WaitGroup
	for i, args := range commands {
		group.Go(func() {
			for ctx.Err() == nil {
				cmd := exec.CommandContext(ctx, *jobctl, slices.Concat([]string{"--config", os.DevNull, "journal"}, args, []string{"--journal", dir})...)
				cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
				cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
				if err := cmd.Run(); err != nil && ctx.Err() == nil {
					b.Errorf("%v: %v", args, err)
					return
				}
				counts[i]++
			}
		})
	}
	return func() string {
		cancel()
		group.Wait()
		var text strings.Builder
		for i, args := range commands {
			fmt.Fprintf(&text, "%s %d×, ", args[0], counts[i])
		}
		return strings.TrimSuffix(text.String(), ", ")
	}
}

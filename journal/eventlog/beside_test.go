package eventlog

import (
	"context"
	"encoding/json"
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
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/journal/verify"
)

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

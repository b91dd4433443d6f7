package eventlog

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/replay"
	"jobd/journal/verify"
)

// BenchmarkAppend measures events a second with so many goroutines appending
// one event at a time.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		appenders int
		churn     bool // segments are begun and sealed all the time
	}{{1, false}, {64, false}, {64, true}} {
		b.Run(fmt.Sprintf("appenders=%d,churn=%t", c.appenders, c.churn), func(b *testing.B) {
			config := Config{Dir: b.TempDir()}
			if c.churn {
				config.SegmentSize = 4 << 20
			}
			j := openWith(b, config)
			go func() { _ = j.Run(b.Context()) }()
			disk := makeFaulty(j)
			b.ReportAllocs()
			b.ResetTimer()
			var next, job atomic.Int64
			var group sync.WaitGroup
			for range c.appenders {
				group.Go(func() {
					var life []journal.Draft
					for next.Add(1) <= int64(b.N) {
						if len(life) == 0 {
							life = wholeLife(job.Add(1))
						}
						if _, err := j.Append(life[0]); err != nil {
							b.Error(err)
						}
						life = life[1:]
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			if !c.churn { // the stub is of the first segment only
				b.ReportMetric(float64(b.N)/float64(disk.commits), "events/commit")
			}
		})
	}
}

// BenchmarkSQLiteCommit is the yardstick: one row, one commit, no journal around it.
func BenchmarkSQLiteCommit(b *testing.B) {
	dir := b.TempDir()
	mustClose(b, openTest(b, dir))
	db := archive.OpenForWriting(dir + "/" + segmentFile)
	defer db.Close()
	if _, err := db.Exec(`CREATE TABLE yardstick (n INTEGER PRIMARY KEY, payload TEXT)`); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.Exec(`INSERT INTO yardstick (payload) VALUES ('{"target":"t","token":"@abcdefghi"}')`); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkVerify measures how fast a journal of 20,000 jobs is read, checked and folded.
func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	const jobs = 20_000
	j := openTest(b, dir)
	for first := int64(1); first <= jobs; first += 1000 {
		var drafts []journal.Draft
		for job := first; job < first+1000; job++ {
			drafts = append(drafts, wholeLife(job)...)
		}
		mustAppend(b, j, drafts...)
	}
	mustClose(b, j)
	r := openReader(b, dir)
	b.ReportAllocs()
	var events uint64
	for b.Loop() {
		state, err := verifyAll(b.Context(), r)
		if err != nil {
			b.Fatal(err)
		}
		events += state.Seq
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// historyEvents is how long a history BenchmarkHistory reads; the goals are for 10,000,000.
var (
	historyEvents = flag.Int("history", 200_000, "events of BenchmarkHistory")
	historyDir    = flag.String("history-dir", "", "where BenchmarkHistory makes its history, or finds it and leaves it; none: a temporary folder")
	jobctl        = flag.String("jobctl", "", "the jobctl that BenchmarkHistory runs; none: only the package is measured")
)

// eventsPerSegment is what fits into a segment of the default size.
const eventsPerSegment = 1_480_000

// generate writes a history of many small jobs, sealed but for the newest segment, which is as full
// as can be, without a worker and so within seconds. The newest waypoint is as far back as it ever
// is.
func generate(dir string, count int) error {
	h, err := archive.NewHeader(1, &journal.State{})
	if err != nil {
		return err
	}
	state := &journal.State{}
	open := min(count/2, eventsPerSegment)
	for left := count; left > 0; {
		size := open
		if left > open {
			size = min(left-open, eventsPerSegment)
		}
		if err := generateSegment(dir, h, state, size, left == open); err != nil {
			return err
		}
		if left -= size; left > 0 {
			if h, err = archive.NewHeader(h.Number+1, state); err != nil {
				return err
			}
		}
	}
	return nil
}

func generateSegment(dir string, h archive.Header, state *journal.State, size int, open bool) (err error) {
	var write func(*staging) error
	mirrored := func(uint64) error { return nil }
	if open {
		if err := archive.Make(context.Background(), dir, h, archive.Notes{Kept: 1}); err != nil {
			return err
		}
		s, err := archive.OpenAppender(context.Background(), dir, h.Number)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		write = func(staged *staging) error { return s.Append(staged.records, nil) }
		mirrored = func(seq uint64) error { return s.Append(nil, &archive.Notes{Position: seq, Kept: 1}) }
	} else {
		w, err := archive.NewSealWriter(archive.SealedPath(dir, h.Number), h)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.Finish(), w.Close()) }()
		write = func(staged *staging) error {
			for i := range staged.records {
				if err := w.Add(&staged.records[i]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	waypointAt := uint64(size) - min(uint64(size), verify.WaypointWeight/uint64(journal.Event{}.Weight()))
	for done := uint64(0); done < uint64(size); {
		var group []*appending
		for range 250 {
			group = append(group, newAppending(lifeBeside(int64(state.Seq)/4+int64(len(group))+1)))
		}
		staged := stage(state, h.Link(state.Seq, state.Hash), group, instant{wall: base.Add(time.Duration(state.Seq) * time.Millisecond)})
		if err := write(staged); err != nil {
			return err
		}
		for _, e := range staged.events {
			if err := state.Apply(e); err != nil {
				return err
			}
		}
		before := done
		done += uint64(len(staged.events))
		if open && before <= waypointAt && done > waypointAt {
			if err := generateWaypoint(dir, h, state); err != nil {
				return err
			}
		}
	}
	if open {
		head, err := archive.OpenHead(dir)
		if err != nil {
			return err
		}
		return errors.Join(mirrored(state.Seq), head.Write(state.Seq, state.Hash), head.Close())
	}
	return nil
}

func generateWaypoint(dir string, h archive.Header, s *journal.State) error {
	return verify.WriteWaypoint(dir, h, s)
}

// lifeBeside is a whole life, in which a job that was claimed ten jobs before is waiting.
func lifeBeside(job int64) []journal.Draft {
	life := wholeLife(job)
	done := life[3].Payload.(journal.Done)
	done.Stdout = journal.Output{Kept: fmt.Appendf(nil, "job %d: 3 files converted, 0 errors\n", job), Size: 40}
	life[0].Payload = journal.Accepted{Target: "video/convert", Token: fmt.Sprintf("@k3vf%05x", uint32(job)*2654435761>>12)}
	life[3].Payload = done
	return life
}

// BenchmarkHistory measures what operators and auditors wait for, in this process and, given the
// program, by jobctl. It says nothing with a short history:
//
//	go test ./journal/eventlog -run '^$' -bench History -benchtime 1x -history 10000000 -jobctl $PWD/bin/jobctl
func BenchmarkHistory(b *testing.B) {
	dir := *historyDir
	if dir == "" {
		dir = b.TempDir()
	}
	begun := time.Now()
	if parts, err := archive.List(dir); err != nil || len(parts) > 0 {
		b.Logf("taking the history in %s as it is: %v", dir, err)
	} else if err := generate(dir, *historyEvents); err != nil {
		b.Fatal(err)
	}
	bytes, parts := int64(0), 0
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && strings.HasPrefix(entry.Name(), "segment-") {
			bytes, parts = bytes+info.Size(), parts+1
		}
	}
	b.Logf("%d events in %v: %d segments, %d bytes, %.1f bytes an event",
		*historyEvents, time.Since(begun).Round(time.Second), parts, bytes, float64(bytes)/float64(*historyEvents))
	debug.FreeOSMemory()
	ctx := context.Background()
	for _, c := range []struct {
		name string
		run  func(*replay.Reader) (events int, err error)
	}{
		{"open for writing", func(*replay.Reader) (int, error) {
			j, err := Open(ctx, Config{Dir: dir})
			if err != nil {
				return 0, err
			}
			return 0, j.Close()
		}},
		{"log -n 20", func(r *replay.Reader) (int, error) { return 0, drain(r, journal.Filter{Last: 20}) }},
		{"log -n 20 --kind", func(r *replay.Reader) (int, error) {
			return 0, drain(r, journal.Filter{Last: 20, Kinds: []journal.Kind{journal.KindDone}})
		}},
		{"log -n 20 --target", func(r *replay.Reader) (int, error) {
			return 0, drain(r, journal.Filter{Last: 20, Target: "video/convert"})
		}},
		{"log --since an hour in the middle", func(r *replay.Reader) (int, error) {
			at := base.Add(time.Duration(*historyEvents/2) * time.Millisecond)
			return 0, drain(r, journal.Filter{Since: at, Until: at.Add(time.Minute)})
		}},
		{"show ID", func(r *replay.Reader) (int, error) {
			return 0, drain(r, journal.Filter{Job: int64(*historyEvents / 9), Output: true})
		}},
		{"verify", func(r *replay.Reader) (int, error) {
			state, err := verifyAll(ctx, r)
			return int(state.Seq), err
		}},
		{"jobs", func(r *replay.Reader) (int, error) {
			for _, err := range r.Jobs(ctx, time.Time{}) {
				if err != nil {
					return 0, err
				}
			}
			return *historyEvents, nil
		}},
		{"replay", func(r *replay.Reader) (int, error) {
			_, err := r.State(ctx, time.Time{})
			return *historyEvents, err
		}},
		{"log", func(r *replay.Reader) (int, error) { return *historyEvents, drain(r, journal.Filter{}) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			events := 0
			for b.Loop() {
				r, err := replay.Open(dir)
				if err != nil {
					b.Fatal(err)
				}
				n, err := c.run(r)
				if err = errors.Join(err, r.Close()); err != nil {
					b.Fatal(err)
				}
				events += n
			}
			if events > 0 {
				b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
			}
			b.ReportMetric(float64(peakMemory(b))/(1<<20), "MiB-peak")
		})
	}
	if *jobctl != "" {
		benchmarkJobctl(b, dir)
	}
}

// benchmarkJobctl runs jobctl's commands on a folder, each in a process of its own.
func benchmarkJobctl(b *testing.B, dir string) {
	for _, c := range []struct {
		args   []string
		events int // that it goes through; 0: a few
	}{
		{[]string{"log", "-n", "20"}, 0},
		{[]string{"show", fmt.Sprint(*historyEvents / 9)}, 0},
		{[]string{"verify"}, *historyEvents},
		{[]string{"state"}, *historyEvents},
		{[]string{"stats"}, *historyEvents},
		{[]string{"log"}, *historyEvents},
		{[]string{"export"}, *historyEvents},
		{[]string{"conflicts"}, *historyEvents},
	} {
		b.Run("jobctl journal "+strings.Join(c.args, " "), func(b *testing.B) {
			var peak int64
			for b.Loop() {
				cmd := exec.Command(*jobctl, slices.Concat([]string{"--config", os.DevNull, "journal"}, c.args, []string{"--journal", dir})...)
				cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				peak = max(peak, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10)
			}
			if c.events > 0 {
				b.ReportMetric(float64(c.events*b.N)/b.Elapsed().Seconds(), "events/s")
			}
			b.ReportMetric(float64(peak)/(1<<20), "MiB-peak")
		})
	}
}

func drain(r *replay.Reader, f journal.Filter) error {
	for _, err := range r.Events(context.Background(), f) {
		if err != nil {
			return err
		}
	}
	return nil
}

// peakMemory is the largest resident size since the last call.
func peakMemory(b *testing.B) (bytes int64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &bytes); err == nil {
			break
		}
	}
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Fatal(err)
	}
	return bytes << 10
}

package eventlog

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"jobd/journal"
	"jobd/journal/archive"
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

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/index"
	"jobd/tests/harness"
)

// How numbers are given.
const (
	megabyte    = 1e6
	millisecond = float64(time.Millisecond)
)

// paired measures the raw limit and the product in turn, so many times each, and gives the medians. The ratio
// is the median of the pairs' own.
func paired(pairs int, raw, product func() float64) reading {
	var m measured
	m.pairs(pairs, raw, product)
	return m.reading()
}

// measured is pairs of the raw limit and the product.
type measured struct{ raws, products, ratios []float64 }

// pairs measures more of them. Which of the two comes first changes from pair to pair.
func (m *measured) pairs(n int, raw, product func() float64) {
	for i := range n {
		var r, p float64
		if i%2 == 0 {
			r, p = raw(), product()
		} else {
			p = product()
			r = raw()
		}
		m.raws, m.products, m.ratios = append(m.raws, r), append(m.products, p), append(m.ratios, p/r)
	}
}

func (m *measured) reading() reading {
	return reading{value: median(m.products), raw: median(m.raws), ratio: median(m.ratios)}
}

func median(numbers []float64) float64 { return percentile(numbers, 50) }

// percentile is the number that so many hundredths of the numbers do not exceed.
func percentile(numbers []float64, hundredths int) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[(len(sorted)-1)*hundredths/100]
}

// rate is how many a second.
func rate(n int, do func()) float64 {
	begun := time.Now()
	do()
	return float64(n) / time.Since(begun).Seconds()
}

// took is how many milliseconds something takes.
func took(do func()) float64 {
	begun := time.Now()
	do()
	return float64(time.Since(begun)) / millisecond
}

// atOnce calls f in n goroutines and waits for all of them.
func atOnce(n int, f func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(f)
	}
	all.Wait()
}

// costs is the processor time that each process spends on a job that does nothing: a worker with ten slots, then eight
// workers with two.
func costs(p *program) []reading {
	alone, together := newSite(p), newSite(p)
	d := alone.worker("bench", launcher, map[string]int{"a": concurrency})
	client := harness.Dial(p, d.Addr)
	team, poke := together.team(workers, slots)
	one := alone.costOfDrain([]*harness.Daemon{d}, func() { client.Ask(p, "poll", nil) })
	eight := together.costOfDrain(team, poke)
	readings := make([]reading, len(one))
	for i := range readings {
		readings[i] = against(eight[i], one[i])
	}
	return readings
}

// costOfDrain is the microseconds of processor time a job that workers, runners and the server spend.
func (s *site) costOfDrain(team []*harness.Daemon, poke func()) [3]float64 {
	var pids [3][]int
	for _, d := range team {
		pids[0], pids[1] = append(pids[0], d.Pid), append(pids[1], d.Runner(s.p))
	}
	pids[2] = []int{serverPid(s.p)}
	s.drainRate(500, "a", poke)
	var before, cost [3]float64
	for i := range pids {
		before[i] = used(s.p, pids[i])
	}
	s.drainRate(drained, "a", poke)
	for i := range pids {
		cost[i] = (used(s.p, pids[i]) - before[i]) / drained
	}
	return cost
}

// used is the microseconds of processor time that processes have used.
func used(p *program, pids []int) (micros float64) {
	for _, pid := range pids {
		micros += float64(processorTime(p, pid)) / float64(time.Microsecond)
	}
	return micros
}

// serverPid is the process of the database server, which is our child.
func serverPid(p *program) int {
	ours := fmt.Sprintf(") S %d ", os.Getpid())
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	p.must(err)
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(stat), "(mariadbd"+ours) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			p.must(err)
			return pid
		}
	}
	p.Fatal("the database server's process was not found")
	return 0
}

// idling is how long nothing happens.
const idling = 60 * time.Second

// idle is the processor time of a worker, its runner and its master that have nothing to do.
func idle(p *program) []reading {
	s := newSite(p)
	master := s.master()
	d := s.worker("bench", launcher, map[string]int{"a": concurrency}, harness.MasterOf(master))
	harness.AwaitWorkers(p, master, "", 1)
	<-time.After(5 * time.Second) // what a start leaves behind
	pids := []int{d.Pid, d.Runner(p), master.Pid}
	used := make([]time.Duration, len(pids))
	woken := 0
	for i, pid := range pids {
		used[i] = processorTime(p, pid)
		woken -= wakeUps(p, pid)
	}
	<-time.After(idling)
	readings := make([]reading, len(pids))
	for i, pid := range pids {
		readings[i].value = float64(processorTime(p, pid)-used[i]) / millisecond
		woken += wakeUps(p, pid)
	}
	return append(readings, reading{value: float64(woken)})
}

// wakeUps is how often the threads of a process have waited for something so far.
func wakeUps(p *program, pid int) (n int) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	p.must(err)
	for _, file := range threads {
		status, err := os.ReadFile(file)
		p.must(err)
		_, rest, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		var switches int
		_, err = fmt.Sscan(rest, &switches)
		p.must(err)
		n += switches
	}
	return n
}

// processorTime is what all threads of a process have used, to the nanosecond: the clock of another process, whose
// number clock_getcpuclockid makes like this. /proc counts in hundredths of a second.
func processorTime(p *program, pid int) time.Duration {
	const scheduled = 2
	var t unix.Timespec
	p.must(unix.ClockGettime(int32(^pid<<3|scheduled), &t))
	return time.Duration(t.Nano())
}

// indexed is how many jobs the queries are measured among.
const indexed = 200_000

// indexing is what the index beside a journal costs its appends, how fast it is made, and how long queries take.
func indexing(p *program) []reading {
	dir := p.TempDir()
	j, err := eventlog.Open(p.Context(), eventlog.Config{Dir: dir})
	p.must(err)
	defer j.Close()
	var job atomic.Int64
	follow := func(use func(x *index.Index)) {
		x := index.New(index.Config{Dir: dir, Log: j, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(p.Context())
		ended := make(chan error, 1)
		go func() { ended <- x.Run(ctx) }()
		_, _ = x.Targets(ctx) // has it begun at once
		use(x)
		cancel()
		p.must(<-ended)
	}
	beside := paired(7, func() float64 { return appendRate(p, j, 64, &job) }, func() (rate float64) {
		follow(func(*index.Index) { rate = appendRate(p, j, 64, &job) })
		return rate
	})
	return append([]reading{beside}, queries(p)...)
}

// queries fills a journal, has its index made, and asks it.
func queries(p *program) []reading {
	dir := p.TempDir()
	j, err := eventlog.Open(p.Context(), eventlog.Config{Dir: dir})
	p.must(err)
	defer j.Close()
	for first := 0; first < indexed; first += 500 {
		var drafts []journal.Draft
		for n := first; n < first+500; n++ {
			drafts = append(drafts, wordy(int64(n+1))...)
		}
		_, err := j.Append(drafts...)
		p.must(err)
	}
	x := index.New(index.Config{Dir: dir, Log: j, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(p.Context())
	ended := make(chan error, 1)
	begun := time.Now()
	go func() { ended <- x.Run(ctx) }()
	_, _ = x.Targets(ctx) // has it begun at once
	for x.Standing(ctx).Lag > 0 {
		select {
		case <-time.After(100 * time.Millisecond):
		case err := <-ended:
			p.Fatal(err)
		}
	}
	made := reading{value: indexed / time.Since(begun).Seconds()}
	var slowest float64
	for _, q := range []index.Query{
		{},
		{Targets: []string{"t3"}},
		{Result: "fail"},
		{Targets: []string{"t1"}, Result: "fail"},
		{Codes: []int{3}},
		{Codes: []int{3}, Targets: []string{"t3"}},
		{Status: journal.StatusIgnored},
		{Text: "w1"},
		{Text: "w1 w2 w700"},
		{Text: "nobody"},
		{Text: "w70*"},
		{Text: "w1", Targets: []string{"nobody"}},
		{Since: time.Now().Add(-time.Hour), Until: time.Now().Add(-time.Minute)},
	} {
		q.Most = 100
		var times []float64
		for range 100 {
			times = append(times, took(func() {
				_, _, err := x.Jobs(ctx, q)
				p.must(err)
			}))
		}
		slowest = max(slowest, percentile(times, 99))
	}
	cancel()
	p.must(<-ended)
	return []reading{made, {value: slowest}}
}

// wordy is a job that writes some words.
func wordy(job int64) []journal.Draft {
	drafts := life(job)
	code, result := 0, "ok"
	if job%50 == 0 {
		code, result = 1+int(job/50%5), "fail"
	}
	out := []byte("job ")
	for n := range int64(20) { // w1 in every other one, w700 in few
		out = fmt.Appendf(out, "w%d ", (job*(n*n+1))%(1<<(n/2+1)))
	}
	drafts[0].Payload = journal.Accepted{Target: fmt.Sprint("t", job%20), Token: token}
	drafts[3].Payload = journal.Done{Result: result, Code: &code, Stdout: journal.Output{Kept: out, Size: int64(len(out))}}
	return drafts
}

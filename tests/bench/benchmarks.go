package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"jobd/tests/harness"
)

// benchmark measures one thing, in one row of the table or in several.
type benchmark struct {
	name  string // as it is asked for
	run   func(*program) []reading
	rows  []row
	extra bool // measured only when it is named
}

// row says what a reading means.
type row struct {
	what, unit string
	goal       goal
}

// benchmarks is everything that can be measured.
func benchmarks() []benchmark {
	return []benchmark{
		{name: "drain", run: drain, rows: []row{
			{"5,000 waiting no-op rows drained, 10 at once ÷ spawned by hand", "jobs/s", ratioAtLeast(0.85)},
		}},
		{name: "manual", run: manual, rows: []row{
			{"run-manual one at a time, p50 above a spawn by hand", "ms", atMost(1.5)},
			{what: "run-manual ÷ a spawn between two commits of SQLite and two of MariaDB", unit: "ms"},
		}},
		{name: "start", run: pokeToStart, rows: []row{
			{"poke to the start of the job, idle system, p50", "ms", atMost(5)},
		}},
		{name: "fairness", run: fairness, rows: []row{
			{"the same on a fourth target while three have a backlog, slowest of 20", "ms", atMost(50)},
		}},
		{name: "claim", run: claimMillion, rows: []row{
			{"a claim of 20 with 1,000,000 rows waiting ÷ with 1,000", "ms", ratioAtMost(1.5)},
		}},
		{name: "claimers", run: manyClaimers, rows: []row{
			{"64 workers claim rows of one target, two at a time ÷ each of its own", "rows/s", ratioAtLeast(0.9)},
			{what: "the server's processor time for a row, likewise", unit: "µs"},
		}},
		{name: "delayed", run: delayed, rows: []row{
			{"a claim of 20 with 500,000 rows that are not due ÷ with none", "ms", ratioAtMost(1.1)},
			{"the same with priorities", "ms", ratioAtMost(1.1)},
			{what: "a claim of 20 by a worker that uses columns about time ÷ by one that uses none", unit: "ms"},
			{"a claim of 20 by priority ÷ by id", "ms", ratioAtMost(1.1)},
			{"the start of a row behind its second, idle system, p50", "ms", atMost(1000)},
			{"10,000 rows due in one second, 2 workers, the start of the 9,900th ÷ of as many that wait", "ms", ratioAtMost(1.2)},
		}},
		{name: "workers", run: workersOnOneTarget, rows: []row{
			{"8 workers with 2 slots on one target ÷ 1 worker with 16", "jobs/s", ratioAtLeast(0.95)},
			{"deadlocks that the server met (raw) and warnings of the 8 workers", "", atMost(0)},
		}},
		{name: "spawn", run: spawnCost, rows: []row{
			{"drained through the runner ÷ by a worker that spawns by itself", "jobs/s", ratioAtLeast(0.9)},
		}},
		{name: "appenders", run: appenders, rows: []row{
			{"journal, 64 appenders that each wait for the fsync ÷ SQLite in batches of 64", "events/s", atLeast(100_000)},
		}},
		{name: "appender", run: appender, rows: []row{
			{"journal, 1 appender ÷ SQLite commits of the same rows", "events/s", ratioAtLeast(0.85)},
		}},
		{name: "index", run: indexing, extra: true, rows: []row{
			{"journal, 64 appenders, with the index of jobs ÷ without", "events/s", ratioAtLeast(0.7)},
			{what: "the index made from a journal", unit: "jobs/s"},
			{"a query of 100 among 200,000 jobs, p99 of the slowest kind", "ms", atMost(50)},
		}},
		{name: "gearman", run: besideGearmandsOwn, extra: true, rows: []row{
			{"Gearman jobs of 64 clients in the foreground, 8 workers ÷ gearmand in memory", "jobs/s", ratioAtLeast(0.5)},
			{"the same in the background, submitted ÷ gearmand in memory", "jobs/s", ratioAtLeast(0.8)},
			{"the same ÷ gearmand with its own SQLite queue", "jobs/s", ratioAtLeast(5)},
		}},
		{name: "page", run: pageSpeed, extra: true, rows: pageRows()},
		{name: "hour", run: hour, extra: true, rows: hourRows()},
		{name: "fleet", run: manyWorkers, extra: true, rows: fleetRows()},
		{name: "mirror", run: mirror, rows: []row{
			{"transitions mirrored to MariaDB ÷ batches of 100 by hand", "rows/s", atLeast(25_000)},
		}},
		{name: "master", run: masterFanOut, rows: []row{
			{"master with 2,000 workers, a poke reaches the 1,980th ÷ plain writes", "ms", atMost(150)},
			{"its resident memory", "MB", atMost(120)},
		}},
		{name: "floods", run: besideFloods, rows: []row{
			{"a master's answers to ping, status and poke beside a flooding peer, p99 of the worst flood ÷ without", "ms", atMost(100)},
			{"its memory at most, of the worst flood", "MB", atMost(1000)},
		}},
		{name: "running", run: runningAtOnce, rows: []row{
			{"1,000 running jobs on one worker, memory of jobd and runner ÷ idle", "MB", atMost(60)},
			{"its answers to status meanwhile, p99 ÷ idle", "ms", atMost(50)},
		}},
		{name: "top", run: topOfMany, rows: []row{
			{"jobctl top on 1,000 running jobs, processor time a second of jobd and runner for it", "ms", atMost(10)},
			{"the same in the order of processor time, for which all jobs are measured", "ms", atMost(10)},
			{what: "what they use without it", unit: "ms"},
		}},
		{name: "output", run: output, rows: []row{
			{"64 jobs that each write 16 MiB, until the last has ended ÷ into cat", "MB/s", ratioAtLeast(0.7)},
			{"memory of jobd and runner at most ÷ what the limits allow", "MB", ratioAtMost(1.2)},
		}},
		{name: "idle", run: idle, rows: []row{
			{"idle worker, processor time in 60 s", "ms", atMost(10)},
			{"its runner", "ms", atMost(10)},
			{"idle master with that worker", "ms", atMost(10)},
			{what: "wake-ups of the three in 60 s", unit: ""},
		}},
		{name: "memory", run: memoryAfterMany, rows: []row{
			{"memory of jobd and runner after 100,000 jobs, the program's pages counted once ÷ idle", "MB", atMost(45)},
			{"the same ÷ after 50,000 jobs", "MB", ratioAtMost(1.05)},
			{what: "with the program's pages counted in both ÷ once", unit: "MB"},
		}},
		{name: "metrics", run: scraped, rows: []row{
			{"drained by a worker that counts and is scraped each 10 s ÷ by one that does neither", "jobs/s", ratioAtLeast(0.99)},
			{what: "its processor time a job", unit: "µs"},
		}},
		{name: "executors", run: executors, extra: true, rows: executorRows()},
		{name: "pools", run: pools, extra: true, rows: poolRows()},
		{name: "costs", run: costs, extra: true, rows: []row{
			{what: "processor time a no-op job, 8 workers ÷ 1: jobd", unit: "µs"},
			{what: "their runners, the jobs themselves not counted", unit: "µs"},
			{what: "the database server", unit: "µs"},
		}},
		{name: "commits", run: commits, extra: true, rows: []row{
			{what: "transactions that write, a no-op job, 8 workers with 2 slots on one target ÷ 1 with 16", unit: ""},
			{what: "the database server's processor time for it", unit: "µs"},
			{what: "jobs a second", unit: "jobs/s"},
			{what: "run-manual of a lone job, p99 (p50 in the place of the raw limit)", unit: "ms"},
			{"connections of the one worker under load ÷ at rest", "", atMost(3)},
		}},
		growth("rows", "ms", "a claim of 20 with %d rows waiting", claimAmong, 1000, 10_000, 100_000, 1_000_000),
		growth("targets", "jobs/s", "drain of 5,000 by a worker that serves %d targets", drainServing, 1, 10, 100, 1000),
		growth("teams", "jobs/s", "drain of 5,000 by %d workers with 16 slots together", drainTogether, 1, 2, 4, 8, 16),
		growth("outputs", "jobs/s", "drain of jobs that write %d KiB", drainWriting, 0, 1, 64, 1024),
	}
}

// choose gives the benchmarks of these names, or, where there are none, those that are not extra.
func choose(all []benchmark, names []string) ([]benchmark, error) {
	var chosen []benchmark
	for _, name := range names {
		at := slices.IndexFunc(all, func(b benchmark) bool { return b.name == name })
		if at < 0 {
			return nil, fmt.Errorf("no benchmark is named %q", name)
		}
		chosen = append(chosen, all[at])
	}
	if len(names) == 0 {
		chosen = slices.DeleteFunc(all, func(b benchmark) bool { return b.extra })
	}
	return chosen, nil
}

func list(w io.Writer, all []benchmark) error {
	_, err := fmt.Fprintln(w, listed(all))
	return err
}

func listed(all []benchmark) string {
	var lines []string
	for _, b := range all {
		lines = append(lines, fmt.Sprintf("  %-10s %s", b.name, b.rows[0].what))
	}
	return strings.Join(lines, "\n")
}

// besideFloods is how long an honest client of a master waits for its answers while peers who know the password send as much as they can,
// and what memory that costs the master: the worst of all floods.
func besideFloods(p *program) []reading {
	const during = 3 * time.Second
	delay, memory := reading{}, 0.0
	for _, flood := range harness.MasterFloods() {
		master := harness.StartMaster(p, harness.Settings{"password": "s3cret", "log_level_console": "warn"})
		harness.Fleet(p, master, "s3cret", 200)
		quiet := honest(p, master, during/3)
		stop := flood.Start(p, master.Addr, "s3cret")
		beside := honest(p, master, during)
		sent := stop()
		peak := float64(harness.MemoryPeak(p, master.Pid)) / megabyte
		p.Logf("%s: %d sent, p99 %.1f ms, without %.1f ms, %.0f MB", flood.Name, sent, beside, quiet, peak)
		if beside > delay.value {
			delay = against(beside, quiet)
		}
		memory = max(memory, peak)
		master.Kill(p)
	}
	return []reading{delay, {value: memory}}
}

// honest is the p99 of an honest client's answers, in milliseconds.
func honest(p *program, master *harness.Daemon, during time.Duration) float64 {
	took := harness.Honest(p, master, "s3cret", during)
	return float64(took[(len(took)-1)*99/100]) / millisecond
}

// growth makes a benchmark of one thing at several sizes, each beside the first.
func growth[N any](name, unit, what string, measure func(*program, N) float64, sizes ...N) benchmark {
	b := benchmark{name: name, extra: true}
	for _, size := range sizes {
		b.rows = append(b.rows, row{what: fmt.Sprintf(what, size), unit: unit})
	}
	b.run = func(p *program) []reading {
		readings := make([]reading, len(sizes))
		for i, size := range sizes {
			readings[i].value = measure(p, size)
			readings[i].raw = readings[0].value
			readings[i].ratio = readings[i].value / readings[0].value
		}
		return readings
	}
	return b
}

// claimAmong is a claim of 20 of so many rows.
func claimAmong(p *program, rows int) float64 {
	t := waiting(p, rows)
	t.claim(p) // the first one examines the table
	var times []float64
	for range 40 {
		times = append(times, took(func() { t.claim(p) }))
	}
	return median(times)
}

// drainServing is a drain by a worker that serves so many targets, up to ten of which have jobs; ten at once.
func drainServing(p *program, targets int) float64 {
	s := newSite(p)
	busy := min(targets, concurrency)
	served := map[string]int{}
	for i := range targets {
		served[fmt.Sprint("t", i)] = concurrency / busy
	}
	client := harness.Dial(p, s.worker("bench", launcher, served).Addr)
	for i := range busy {
		s.insert(drained/busy, fmt.Sprint("t", i), "waiting")
	}
	return rate(drained, func() {
		client.Ask(p, "poll", nil)
		s.awaitDone()
	})
}

// drainTogether is a drain by so many workers that have 16 slots together.
func drainTogether(p *program, n int) float64 {
	s := newSite(p)
	_, poke := s.team(n, workers*slots/n)
	return s.drainRate(drained, "a", poke)
}

// drainWriting is a drain of jobs that write so many KiB each, which nothing compresses.
func drainWriting(p *program, kib int) float64 {
	s := newSite(p)
	n := max(200, 2000/(kib+1))
	write := fmt.Sprintf("head -c %dk /dev/urandom", kib)
	client := harness.Dial(p, s.worker("bench", harness.Script(p, write)+" {id}", map[string]int{"a": concurrency}).Addr)
	return s.drainRate(n, "a", func() { client.Ask(p, "poll", nil) })
}

// hourlong is how many minutes of load are watched; BENCH_HOUR says others.
const hourlong = 60

// hour is what an hour of jobs, open pages and visits leaves behind in a worker: memory and open files each minute,
// and how fast they grow behind the first ten minutes.
func hour(p *program) []reading {
	minutes, err := strconv.Atoi(os.Getenv("BENCH_HOUR"))
	if err != nil || minutes <= 0 {
		minutes = hourlong
	}
	b := startPage(p, pageSize{rows: 20_000, jobs: 20_000})
	ctx, cancel := context.WithTimeout(p.Context(), time.Duration(minutes)*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	again := func(pause time.Duration, do func(n int)) {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-time.After(pause):
					do(n)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	again(time.Second, func(int) { // 20 jobs a second
		b.site.insert(20, "echo", "waiting")
		b.client.Ask(p, "poll", nil)
	})
	again(300*time.Millisecond, func(n int) { b.load(pageScreens[n%len(pageScreens)]) })
	defer b.watch(mixed(30)...)()

	var x, memory, files []float64
	of := p.residents(b.worker)
	for minute := 0; ; minute++ {
		open, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(b.worker.Pid), "fd"))
		p.must(err)
		own := float64(harness.Memory(p, b.worker.Pid)) / megabyte
		p.Logf("minute %d: %.1f MB, with the runner %.1f MB, %d files, %v of processor time", minute, own, of.now(), len(open), processorTime(p, b.worker.Pid))
		if minute >= min(10, minutes/2) {
			x, memory, files = append(x, float64(minute)), append(memory, own), append(files, float64(len(open)))
		}
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
			return []reading{{value: 60 * slope(x, memory), raw: median(memory)}, {value: 60 * slope(x, files), raw: median(files)}}
		}
	}
}

// slope is how much y grows with x, by least squares.
func slope(x, y []float64) float64 {
	n, sx, sy, sxx, sxy := float64(len(x)), sum(x), sum(y), 0.0, 0.0
	for i := range x {
		sxx, sxy = sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	return (n*sxy - sx*sy) / max(n*sxx-sx*sx, 1)
}

// hourRows are what hour gives.
func hourRows() []row {
	return []row{
		{fmt.Sprintf("memory of a worker after %d minutes of jobs, 30 open pages and visits, growth an hour (median in the place of the raw limit)", hourlong), "MB", atMost(5)},
		{"its open files, the same", "", atMost(2)},
	}
}

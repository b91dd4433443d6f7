package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
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

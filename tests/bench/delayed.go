package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/store"
	"jobd/tests/harness"
)

const (
	future    = 500_000 // rows that are not due for a long time
	rounds    = 4       // on fresh tables, of what they cost
	beside    = 10_000  // rows that wait
	dueAtOnce = 10_000
	// togetherRounds is how often rows that are due at once are compared with rows that wait.
	togetherRounds = 4
	warmUp         = 200 // rows that two workers have run before
)

// usesNoPriority are the columns about time without the one for which waiting rows have another order.
var usesNoPriority = slices.DeleteFunc(slices.Clone(store.TimeColumns()), func(c string) bool { return c == store.ColumnPriority })

// delayed is what rows that are not due yet cost those that are, and how late these are started.
func delayed(p *program) []reading {
	late, together := lateness(p), latenessTogether(p)
	all := store.Uses(store.TimeColumns())
	with := func(delayed int, uses store.Uses) func() table {
		return func() table { return timesTable(p, delayed, uses) }
	}
	without := claimPairs(p, 1, with(0, nil), with(0, usesNoPriority))
	byPriority := claimPairs(p, 1, with(0, usesNoPriority), with(0, all))
	many := claimPairs(p, rounds, with(0, usesNoPriority), with(future, usesNoPriority))
	manyRanked := claimPairs(p, rounds, with(0, all), with(future, all))
	return []reading{many, manyRanked, without, byPriority, late, together}
}

// claimPairs is claims from one table in turn with claims from another, on fresh tables each round: those
// that were claimed from before are slower, and where its pages came to lie makes one table slower than
// another. Which of the two is made first, and asked first, changes from round to round, and from pair to
// pair.
func claimPairs(p *program, rounds int, raw, product func() table) reading {
	const pairs, warm = 120, 5
	var all measured
	for round := range rounds {
		var one, other table
		if round%2 == 0 {
			one, other = raw(), product()
		} else {
			other = product()
			one = raw()
		}
		for range warm {
			one.claim(p)
			other.claim(p)
		}
		all.pairs(pairs,
			func() float64 { return took(func() { one.claim(p) }) },
			func() float64 { return took(func() { other.claim(p) }) },
		)
	}
	return all.reading()
}

// timesTable makes a table with columns about time, of which these are used, rows that wait and rows
// that are delayed.
func timesTable(p *program, delayed int, uses store.Uses) table {
	s := newTimesSite(p)
	s.insert(beside, "a", "waiting")
	if delayed > 0 {
		_, err := s.Admin.Exec(fmt.Sprintf("INSERT INTO jobs (target, time_created, status, run_at) "+
			"SELECT 'a', UNIX_TIMESTAMP(), 'delayed', UNIX_TIMESTAMP() + 100000 + seq FROM seq_1_to_%d", delayed))
		s.p.must(err)
	}
	s.Exec(p, "ANALYZE TABLE jobs")
	s.flush()
	return s.tableUsing(uses)
}

// flush has the server write what it has in memory of the table. Else it does so for a minute after
// half a million rows were inserted, beside what is measured.
func (s *site) flush() {
	conn, err := s.Admin.Conn(s.p.Context())
	s.p.must(err)
	defer conn.Close()
	for _, statement := range []string{"FLUSH TABLES jobs FOR EXPORT", "UNLOCK TABLES"} {
		_, err := conn.ExecContext(s.p.Context(), statement)
		s.p.must(err)
	}
}

// newTimesSite is newSite with a table that has all columns about time.
func newTimesSite(p *program) *site {
	s := &site{harness.NewDatabaseOn(p, p.server(), harness.TimesTable), p}
	p.Cleanup(func() { _, _ = s.Admin.Exec("DROP DATABASE " + s.Name) })
	return s
}

// lateness is how many milliseconds behind its second a row is started by a worker that has nothing
// else to do, and knows of no row before.
func lateness(p *program) reading {
	const rows = 30
	s := newTimesSite(p)
	var due int64
	p.must(s.Admin.QueryRow("SELECT UNIX_TIMESTAMP() + 4").Scan(&due))
	for i := range int64(rows) {
		s.Exec(p, "INSERT INTO jobs (id, target, time_created, status, run_at) VALUES (?, 'a', UNIX_TIMESTAMP(), 'delayed', ?)", i+1, due+i)
	}
	settings := s.timesWorker("bench")
	settings.StartWorker(p)
	s.awaitDelayed(rows)
	late := lates(p, 1, func(job int64) time.Time { return time.Unix(due+job-1, 0) }, settings)
	return reading{value: median(late)}
}

// latenessTogether is the same for rows that are all due in one second, on two workers: when
// ninety-nine of a hundred have been started. In turn with it stands the same for as many rows that
// wait, on fresh tables: an index is slower where rows have ended before.
func latenessTogether(p *program) reading {
	var all measured
	for range togetherRounds / 2 {
		all.pairs(2,
			func() float64 { return startedTogether(p, "waiting") },
			func() float64 { return startedTogether(p, "delayed") },
		)
	}
	return all.reading()
}

// startedTogether is how many milliseconds after a poke, or after the second at which they are due, the
// 9,900th of so many rows is started by two workers that had nothing to do.
func startedTogether(p *program, status string) float64 {
	s := newTimesSite(p)
	master := s.master()
	one, two := s.timesWorker("one").With(harness.MasterOf(master)), s.timesWorker("two").With(harness.MasterOf(master))
	daemons := []*harness.Daemon{one.StartWorker(p), two.StartWorker(p), master}
	harness.AwaitWorkers(p, master, "", 2)
	client := harness.Dial(p, master.Addr)
	poke := func() { client.Ask(p, "poke", map[string]any{"targets": []string{"a"}}) }
	s.insert(warmUp, "a", "waiting")
	poke()
	s.awaitDelayed(warmUp)
	var due int64
	p.must(s.Admin.QueryRow("SELECT UNIX_TIMESTAMP() + 3").Scan(&due))
	rows, err := s.Admin.Begin()
	p.must(err)
	_, err = rows.Exec(fmt.Sprintf("INSERT INTO jobs (id, target, time_created, status, run_at) SELECT ? + seq, 'a', UNIX_TIMESTAMP(), ?, ? FROM seq_1_to_%d", dueAtOnce),
		warmUp, status, due)
	p.must(err)
	begun := time.Now()
	p.must(rows.Commit())
	poke()
	s.awaitDelayed(warmUp + dueAtOnce)
	if status == "delayed" {
		begun = time.Unix(due, 0)
	}
	for _, d := range daemons { // which would wait for their share of the machine beside those of the next round
		d.Signal(p, syscall.SIGTERM)
		d.ExitCode(p)
	}
	return percentile(lates(p, warmUp+1, func(int64) time.Time { return begun }, one, two), 99)
}

// timesWorker is the settings of a worker that says only what is wrong.
func (s *site) timesWorker(name string) harness.Settings {
	return s.Worker(s.p, name, launcher, map[string]int{"a": concurrency / 2}).With(harness.UsesAll, harness.Settings{"log_level_console": "error"})
}

// awaitDelayed waits until so many rows are done. Looking must not cost what is measured.
func (s *site) awaitDelayed(n int) {
	again := time.NewTicker(50 * look)
	defer again.Stop()
	tooLong := time.After(15 * time.Minute)
	for s.Count(s.p, "status = 'done'") < n {
		select {
		case <-again.C:
		case <-tooLong:
			s.p.Fatalf("%d rows are not done", s.Count(s.p, "status <> 'done'"))
		}
	}
}

// lates reads from journals how many milliseconds behind its time each job from an id on was about to
// be started.
func lates(p *program, first int64, due func(job int64) time.Time, workers ...harness.Settings) (late []float64) {
	early := &strings.Builder{}
	for _, settings := range workers {
		reader, err := replay.Open(settings["journal_dir"])
		p.must(err)
		for e, err := range reader.Events(p.Context(), journal.Filter{Kinds: []journal.Kind{journal.KindRunning}}) {
			p.must(err)
			if e.Job < first {
				continue
			}
			behind := e.Time.Sub(due(e.Job))
			if behind < 0 {
				fmt.Fprintf(early, "job %d was started %s too early; ", e.Job, -behind)
			}
			late = append(late, float64(behind)/millisecond)
		}
	}
	if early.Len() > 0 {
		p.Fatal(early)
	}
	return late
}

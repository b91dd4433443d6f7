package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"jobd/store/storetest/dbserver"
	"jobd/tests/harness"
)

// noop is the job that costs nothing but its process.
const (
	noop     = "/bin/true"
	launcher = noop + " {id}"
)

// look is how often the table is looked at while it drains, at most.
const look = 10 * time.Millisecond

// site is a database of a benchmark's own.
type site struct {
	*harness.Database
	p *program
}

func newSite(p *program) *site {
	s := &site{harness.NewDatabaseOn(p, p.server()), p}
	p.Cleanup(func() { _, _ = s.Admin.Exec("DROP DATABASE " + s.Name) }) // what it leaves to the server is not to disturb the next
	return s
}

// insert adds n jobs and gives the first one's id; the others follow it.
func (s *site) insert(n int, target, status string) (first int64) {
	result, err := s.Admin.Exec(fmt.Sprintf(
		"INSERT INTO jobs (target, time_created, status) SELECT ?, UNIX_TIMESTAMP(), ? FROM seq_1_to_%d", n), target, status)
	s.p.must(err)
	first, err = result.LastInsertId()
	s.p.must(err)
	return first
}

// worker starts a jobd that says only what is wrong.
func (s *site) worker(name, launcher string, targets map[string]int, others ...harness.Settings) *harness.Daemon {
	quiet := harness.Settings{"log_level_console": "warn"}
	return s.Worker(s.p, name, launcher, targets).With(quiet).With(others...).StartWorker(s.p)
}

// master starts a jobd-master that says only what is wrong.
func (s *site) master() *harness.Daemon {
	return harness.StartMaster(s.p, harness.Settings{"log_level_console": "warn"})
}

// drainRate is how many jobs a second go from waiting to done: from poke, which is called when they
// are there, to the last row.
func (s *site) drainRate(n int, target string, poke func()) float64 {
	first := s.insert(n, target, "waiting")
	drained := rate(n, func() {
		poke()
		s.awaitDone()
	})
	if ok := s.Count(s.p, "id >= ? AND result = 'ok'", first); ok != n {
		s.p.Fatalf("%d of %d jobs are ok", ok, n)
	}
	return drained
}

// awaitDone waits until no job is left. Looking must not cost what is measured: what a look wakes takes jobs off
// their processors. So the longer it takes, the more seldom are the looks; they are late by 1 % at most.
func (s *site) awaitDone() {
	began := time.Now()
	for _, status := range []string{"waiting", "accepted", "running"} { // a job only goes from one to the next
		for s.someHave(status) {
			took := time.Since(began)
			if took > 15*time.Minute {
				s.p.Fatalf("%d jobs are not done", s.Count(s.p, "status <> 'done'"))
			}
			<-time.After(max(look, took/100))
		}
	}
}

// someHave tells whether any job has the status. It reads one entry at the end of the index: claims take from the
// beginning, and leave there what the server has still to sweep up.
func (s *site) someHave(status string) bool {
	var id int64
	err := s.Admin.QueryRow("SELECT id FROM jobs WHERE status = ? ORDER BY target DESC, id DESC LIMIT 1", status).Scan(&id)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		s.p.Fatal(err)
	}
	return err == nil
}

// surroundings is what all benchmarks share, made when the first one needs it.
type surroundings struct {
	server *dbserver.Server
}

func (s *surroundings) close() {
	if s.server == nil {
		return
	}
	if err := s.server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// program lets a command use the test harness: what would fail a test ends
// the benchmark with an error, and cleanups run at its end.
type program struct {
	testing.TB
	surroundings *surroundings
	cleanups     []func()
	failed       error
}

// failure is what Fatal panics with.
type failure struct{ err error }

// run runs one benchmark.
func (p *program) run(f func(*program) []reading) (readings []reading, err error) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			p.failed = f.err
		default:
			panic(f)
		}
		for _, cleanup := range slices.Backward(p.cleanups) {
			cleanup()
		}
		err = p.failed
	}()
	return f(p), nil
}

// server is the one database server.
func (p *program) server() *dbserver.Server {
	if p.surroundings.server == nil {
		server, err := dbserver.Start(p.Context(), dbserver.Options{Durable: true, Args: []string{"--max-connections=5000"}})
		p.must(err)
		p.surroundings.server = server
	}
	return p.surroundings.server
}

// must ends the benchmark where there is an error.
func (p *program) must(err error) {
	if err != nil {
		p.Fatal(err)
	}
}

// Helper implements testing.TB.
func (p *program) Helper() {}

// Context implements testing.TB.
func (p *program) Context() context.Context { return context.Background() }

// Cleanup implements testing.TB.
func (p *program) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

// Failed implements testing.TB.
func (p *program) Failed() bool { return p.failed != nil }

// Fatal implements testing.TB.
func (p *program) Fatal(args ...any) { panic(failure{errors.New(fmt.Sprint(args...))}) }

// Fatalf implements testing.TB.
func (p *program) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Errorf implements testing.TB.
func (p *program) Errorf(format string, args ...any) { p.Logf(format, args...) }

// Logf implements testing.TB.
func (p *program) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// TempDir implements testing.TB.
func (p *program) TempDir() string {
	dir, err := os.MkdirTemp("", "jobd-bench-")
	p.must(err)
	p.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func main() {
	file := flag.String("json", "", "also write the numbers to this file, as JSON")
	commit := flag.String("against", "", "measure this commit's build too, in turn, and tell how the two relate")
	pairs := flag.Int("pairs", 20, "how often, with --against")
	flag.Parse()
	measureAll := func() error { return run(flag.Args(), *file, os.Stdout, os.Stderr) }
	if *commit != "" {
		measureAll = func() error { return compare(flag.Args(), *commit, *pairs, *file, os.Stdout, os.Stderr) }
	}
	if err := measureAll(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures what is named and reports it. What failed is told, and the others are measured all the same.
func run(names []string, file string, stdout, stderr io.Writer) error {
	all := benchmarks()
	if slices.Contains(names, "list") {
		return list(stdout, all)
	}
	chosen, err := choose(all, names)
	if err != nil {
		return fmt.Errorf("%w; there are:\n%s", err, listed(all))
	}
	s := &surroundings{}
	defer s.close()
	var results []result
	var failed error
	for _, b := range chosen {
		fmt.Fprintln(stderr, "measuring", b.name)
		measured, err := measure(s, b)
		if err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", b.name, err)
			failed = fmt.Errorf("%s could not be measured", b.name)
		}
		results = append(results, measured...)
	}
	if err := report(stdout, file, results); err != nil {
		return err
	}
	return failed
}

// measure runs one benchmark and gives a result for each of its rows.
func measure(s *surroundings, b benchmark) ([]result, error) {
	p := &program{surroundings: s}
	readings, err := p.run(b.run)
	if err != nil {
		return nil, err
	}
	if len(readings) != len(b.rows) {
		return nil, fmt.Errorf("%d readings for %d rows", len(readings), len(b.rows))
	}
	results := make([]result, len(b.rows))
	for i, r := range readings {
		results[i] = b.rows[i].result(b.name, r)
	}
	return results, nil
}

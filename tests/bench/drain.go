package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner"
	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/tests/harness"
)

const (
	drained     = 5000
	concurrency = 10
)

// drain is a worker that empties a table of jobs that do nothing, beside as many processes spawned by hand.
func drain(p *program) []reading {
	s := newSite(p)
	client := harness.Dial(p, s.worker("bench", launcher, map[string]int{"a": concurrency}).Addr)
	s.drainRate(500, "a", func() { client.Ask(p, "poll", nil) }) // what happens once in a worker's life is no part of it
	return []reading{paired(3,
		func() float64 { return spawnRate(p, drained) },
		func() float64 { return s.drainRate(drained, "a", func() { client.Ask(p, "poll", nil) }) },
	)}
}

// spawnRate is how many no-op processes a second this machine starts, captures and reaps.
func spawnRate(p *program, n int) float64 {
	var next atomic.Int64
	return rate(n, func() {
		atOnce(concurrency, func() {
			for next.Add(1) <= int64(n) {
				if err := spawn(noop, "1000"); err != nil { // with an argument, as the launcher has one, /bin/true does more
					p.Logf("%s: %v", noop, err)
				}
			}
		})
	})
}

// spawn runs a process to its end as any program would that wants to know what it writes.
func spawn(argv ...string) error {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	return cmd.Run()
}

const (
	workers = 8
	slots   = 2 // of each of them
	shared  = 4000
)

// workersOnOneTarget is several workers that claim from one target, beside one that has all their slots.
func workersOnOneTarget(p *program) []reading {
	alone, together := newSite(p), newSite(p)
	single := harness.Dial(p, alone.worker("alone", launcher, map[string]int{"a": workers * slots}).Addr)
	daemons, poke := together.team(workers, slots)
	before := together.deadlocks()
	rates := paired(3,
		func() float64 { return alone.drainRate(shared, "a", func() { single.Ask(p, "poll", nil) }) },
		func() float64 { return together.drainRate(shared, "a", poke) },
	)
	warnings := 0
	for _, d := range daemons {
		if said := d.Output(); said != "" {
			warnings += strings.Count(said, "\n")
			p.Logf("%s", said)
		}
	}
	return []reading{rates, against(float64(warnings), together.deadlocks()-before)}
}

// team starts so many workers on one target and their master; poke wakes them all.
func (s *site) team(n, slots int) (daemons []*harness.Daemon, poke func()) {
	master := s.master()
	for i := range n {
		daemons = append(daemons, s.worker(fmt.Sprint("w", i), launcher, map[string]int{"a": slots}, harness.MasterOf(master)))
	}
	harness.AwaitWorkers(s.p, master, "", n)
	client := harness.Dial(s.p, master.Addr)
	return daemons, func() { client.Ask(s.p, "poke", map[string]any{"targets": []string{"a"}}) }
}

// deadlocks is how many the server met so far.
func (s *site) deadlocks() (n float64) {
	var name string
	s.p.must(s.Admin.QueryRow("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").Scan(&name, &n))
	return n
}

// claimMillion is a claim with a million rows waiting, in turn with one with a thousand.
func claimMillion(p *program) []reading {
	const pairs = 40
	few, many := waiting(p, 1000), waiting(p, 1_000_000)
	few.claim(p)
	many.claim(p) // the first one examines the table
	return []reading{paired(pairs,
		func() float64 { return took(func() { few.claim(p) }) },
		func() float64 { return took(func() { many.claim(p) }) },
	)}
}

// table is a jobs table as the worker's claims see it.
type table struct{ *mysql.Table }

// waiting makes a table with so many rows waiting.
func waiting(p *program, rows int) table {
	s := newSite(p)
	s.insert(rows, "a", "waiting")
	s.Exec(p, "ANALYZE TABLE jobs")
	return s.table()
}

// table opens the site's table with the daemons' account.
func (s *site) table() table { return s.tableUsing(nil) }

// tableUsing opens it as a worker does that uses columns about time.
func (s *site) tableUsing(uses store.Uses) table {
	host, port, err := net.SplitHostPort(s.Addr)
	s.p.must(err)
	number, err := strconv.Atoi(port)
	s.p.must(err)
	opened, err := mysql.New(mysql.Config{
		Host: host, Port: number, User: s.Account.User, Password: s.Account.Password, Database: s.Name, Uses: uses,
		Logger: slog.New(slog.DiscardHandler),
	})
	s.p.must(err)
	s.p.Cleanup(func() { opened.Close() })
	server, err := opened.Server(context.Background())
	s.p.must(err)
	opened.Confirm(server)
	return table{opened}
}

// claim claims as a worker with ten slots does that has nothing.
func (t table) claim(p *program) {
	const room = 20
	if claimed := t.claimSome(p, "a", room); claimed != room {
		p.Fatalf("%d rows were claimed, not %d", claimed, room)
	}
}

// claimSome claims rows of a target, and tells how many.
func (t table) claimSome(p *program, target string, room int) (claimed int) {
	err := t.Claim(context.Background(), map[string]int{target: room}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		events := make([]journal.Event, len(rows))
		for i, row := range rows {
			accepted := journal.Accepted{Target: target, Token: token, Plan: row.Plan}
			if row.Plan != nil {
				accepted.PlannedAt = time.Now().Unix()
			}
			events[i] = journal.Event{Job: row.Job, Payload: accepted}
		}
		claimed = len(rows)
		return events, nil
	})
	p.must(err)
	return claimed
}

// token is a claim's.
const token = "@abcdefghi"

// spawnCost is a worker whose jobs are children of its own, in turn with one that has a runner: both in this
// process, and otherwise alike.
func spawnCost(p *program) []reading {
	const jobs = 3000
	children := newInside(p, func(string) (starter, error) {
		return ownChildren{}, nil
	})
	remote := newInside(p, func(dir string) (starter, error) {
		return runner.Open(runner.Config{Dir: dir, Path: harness.Program(p, "jobd"), Command: []string{"jobd", "runner"}, Logger: quiet})
	})
	return []reading{paired(3,
		func() float64 { return children.site.drainRate(jobs, "a", children.worker.PollAll) },
		func() float64 { return remote.site.drainRate(jobs, "a", remote.worker.PollAll) },
	)}
}

var quiet = slog.New(slog.DiscardHandler)

// starter starts jobs, and remembers them for the worker.
type starter interface {
	jobexec.Runner
	jobexec.Keeper
	io.Closer
}

// inside is a worker in this process, with a journal, a mirror and a table.
type inside struct {
	site   *site
	worker *jobexec.Worker
}

func newInside(p *program, makeStarter func(dir string) (starter, error)) *inside {
	s, dir := newSite(p), p.TempDir()
	j, err := eventlog.Open(p.Context(), eventlog.Config{Dir: dir})
	p.must(err)
	reserve, err := eventlog.OpenReserve(dir, 64<<20)
	p.must(err)
	starts, err := makeStarter(dir)
	p.must(err)
	p.Cleanup(func() { p.must(errors.Join(starts.Close(), reserve.Close(), j.Close())) })
	table := s.table()
	i := &inside{site: s}
	m := store.NewMirror(store.Config{Source: j, Bookmark: j, Table: table.Table, Logger: quiet, OnReturn: func() { i.worker.PollAll() }})
	i.worker = jobexec.New(jobexec.Config{
		Name: "inside", Targets: map[string]int{"a": concurrency}, Launcher: jobexec.Launcher{Words: []string{noop, "{id}"}, Env: os.Environ()},
		MaxOutput: keptOutput, FetchLimit: 100, Prefetch: -1, MaxAttempts: 1, Recorder: j, Table: table.Table, Mirror: m,
		Runner: starts, Keeper: starts, Disk: reserve, Logger: quiet,
		Retry: func(what string, about ...any) jobexec.Retry { return store.NewRetry(quiet, what, about...) }, OnTargets: func() {},
	})
	p.must(i.worker.Open(os.Getpid()))
	p.Cleanup(i.begin(p, m))
	return i
}

// begin runs worker and mirror until end is called.
func (i *inside) begin(p *program, m *store.Mirror) (end func()) {
	working, stop := context.WithCancel(context.Background())
	mirroring, stopMirror := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- i.worker.Run(working) }()
	go func() { ended <- m.Run(mirroring) }()
	return func() {
		stop()
		err := <-ended
		stopMirror()
		if err = errors.Join(err, <-ended); err != nil {
			p.Logf("stop the worker: %v", err)
		}
	}
}

// ownChildren starts jobs as os/exec does, as children of this process. They die with the worker: there is nothing to remember.
type ownChildren struct{}

func (ownChildren) Instance() (string, error)                { return "own", nil }
func (ownChildren) Ended(string) bool                        { return false }
func (ownChildren) Recall([]jobexec.Spec) []jobexec.Recalled { return nil }
func (ownChildren) Forget(int64, string, int)                {}

func (ownChildren) Adopt(jobexec.Spec, journal.Started) (jobexec.Process, bool) { return nil, false }

func (ownChildren) Usage(of []journal.Started) []*jobexec.Usage {
	return make([]*jobexec.Usage, len(of))
}

func (ownChildren) Written(context.Context, jobexec.Glance) (w jobexec.Written, err error) {
	return w, nil
}
func (ownChildren) Close() error { return nil }
func (ownChildren) Start(spec jobexec.Spec) (jobexec.Process, error) {
	c := &ownChild{begun: make(chan struct{}), ended: make(chan struct{})}
	go c.run(spec)
	return c, nil
}

// ownChild is one of them.
type ownChild struct {
	begun, ended chan struct{}
	pid          int
	done         journal.Done
	err          error
}

// run starts the process and waits for its end.
func (c *ownChild) run(spec jobexec.Spec) {
	defer spec.Tell(jobexec.News{Job: spec.Job, Token: spec.Token, Attempt: spec.Attempt, Ended: true})
	defer close(c.ended)
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = spec.Env, spec.Dir, &stdout, &stderr
	if c.err = cmd.Start(); c.err != nil {
		close(c.begun)
		return
	}
	c.pid = cmd.Process.Pid
	close(c.begun)
	c.err = cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	c.done = journal.Done{Result: "ok", Code: &code}
}

func (c *ownChild) Begun() <-chan struct{}         { return c.begun }
func (c *ownChild) Ended() <-chan struct{}         { return c.ended }
func (c *ownChild) Outcome() (journal.Done, error) { return c.done, c.err }

func (c *ownChild) Started() journal.Started {
	return journal.Started{Pid: c.pid, StartTime: 1, BootID: "own"}
}

// Signal is for nobody here.
func (c *ownChild) Signal(signo int) error {
	return errors.Join(syscall.Kill(c.pid, syscall.Signal(signo)))
}

//go:embed testdata/executors
var applications embed.FS

// application makes a folder with an application in each language, and the loops of examples/launchers that
// load it.
func application(p *program) string {
	folder := p.TempDir()
	files, err := fs.Sub(applications, "testdata/executors")
	p.must(err)
	p.must(os.CopyFS(folder, files))
	p.must(os.Mkdir(filepath.Join(folder, "classes"), 0o755))
	p.must(os.Setenv("BENCH_CLASSES", filepath.Join(folder, "classes"))) // for what is run by hand
	for i := range 50 {
		class := fmt.Sprintf("<?php\nfinal class Part%d\n{\n", i)
		for method := range 20 {
			class += fmt.Sprintf("    public function method%d(array $a): array { return array_map(static fn ($x) => [$x, %d], $a); }\n", method, method)
		}
		class += "    public static function load(): void {}\n}\n"
		p.must(os.WriteFile(filepath.Join(folder, "classes", fmt.Sprintf("Part%d.php", i)), []byte(class), 0o644))
	}
	for _, name := range []string{"fork.php", "pool.php", "fork.py", "pool.py", "pool.cjs"} {
		source, err := os.ReadFile(filepath.Join("..", "examples", "launchers", name))
		p.must(err)
		loads := map[string][4]string{
			".php": {"// require __DIR__ . '/vendor/autoload.php';\n", "require __DIR__ . '/app.php';\n", "/** Runs one job", "\n}\n"},
			".py":  {"# import application\n", "from app import run\n", "def run(job):", "return 0\n"},
			".cjs": {"// const application = require('./application');\n", "const { run } = require('./app.cjs');\n", "/** Runs one job", "\n}\n"},
		}[filepath.Ext(name)]
		loop := strings.Replace(string(source), loads[0], loads[1], 1)
		before, rest, found := strings.Cut(loop, loads[2])
		_, after, ends := strings.Cut(rest, loads[3])
		if !found || !ends || !strings.Contains(loop, loads[1]) {
			p.Fatalf("%s is not as it was: the application can't be put into it", name)
		}
		p.must(os.WriteFile(filepath.Join(folder, name), []byte(before+after), 0o644))
	}
	return folder
}

// claimers is how many workers claim at once, two rows at a time, and for how long.
const (
	claimers  = 64
	claimTime = 4 * time.Second
)

// manyClaimers is what many workers claim of one target, beside what they claim where each has its own: rows a
// second, and the server's processor time for a row.
func manyClaimers(p *program) []reading {
	const pairs, rows = 3, 60_000
	var cost measured
	claimed := func(costs *[]float64, targets int) float64 {
		s := newSite(p)
		target := func(claimer int) string { return fmt.Sprint("t", claimer%targets) }
		for i := range targets {
			s.insert(rows/targets, target(i), "waiting")
		}
		s.Exec(p, "ANALYZE TABLE jobs")
		before := processorTime(p, serverPid(p))
		var all atomic.Int64
		var group sync.WaitGroup
		ctx, cancel := context.WithTimeout(p.Context(), claimTime)
		defer cancel()
		for i := range claimers {
			t := s.table()
			group.Go(func() {
				for ctx.Err() == nil {
					all.Add(int64(t.claimSome(p, target(i), 2)))
				}
				p.must(t.Close())
			})
		}
		group.Wait()
		*costs = append(*costs, float64(processorTime(p, serverPid(p))-before)*1000/float64(all.Load())/millisecond)
		return float64(all.Load()) / claimTime.Seconds()
	}
	rate := paired(pairs,
		func() float64 { return claimed(&cost.raws, claimers) },
		func() float64 { return claimed(&cost.products, 1) },
	)
	return []reading{rate, against(median(cost.products), median(cost.raws))}
}

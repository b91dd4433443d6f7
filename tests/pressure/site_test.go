package pressure

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 4) }

// site is a database behind a link that can be cut, and launchers that wait at a gate.
type site struct {
	*harness.Database
	t    *testing.T
	link harness.Link
	gate string // jobs that wait go on when this file exists
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Database: harness.NewDatabase(t), t: t, gate: filepath.Join(t.TempDir(), "gate")}
	s.link = harness.NewLink(t, s.Addr)
	return s
}

// gated is a launcher whose jobs wait until the gate is open, or the test has ended.
func (s *site) gated() string {
	waits := fmt.Sprintf("while [ -d %s ] && [ ! -e %s ]; do sleep 0.2; done", filepath.Dir(s.gate), s.gate)
	return harness.Script(s.t, waits) + " {id}"
}

// open opens the gate.
func (s *site) open() { harness.Touch(s.t, s.gate) }

// start starts a worker that reaches the database over the link. Its jobs find the gate open when the test ends.
func (s *site) start(name, launcher string, targets map[string]int, others ...harness.Settings) *worker {
	s.t.Helper()
	way := s.link.ToDatabase().With(harness.Settings{"log_level_console": "warn"})
	settings := s.Worker(s.t, name, launcher, targets).With(way).With(others...)
	w := &worker{Daemon: settings.StartWorker(s.t), t: s.t}
	s.t.Cleanup(func() { _ = os.WriteFile(s.gate, nil, 0o600) }) // the folder may be gone already
	w.client = harness.Dial(s.t, w.Addr)
	return w
}

// held is how many rows are claimed and not done.
func (s *site) held() int { return s.Count(s.t, "status IN ('accepted', 'running')") }

// worker is a jobd and a client of it.
type worker struct {
	*harness.Daemon
	t      *testing.T
	client *harness.Wire
}

// poll asks for a look at the table, so many times.
func (w *worker) poll(times int) {
	w.t.Helper()
	for range times {
		answer := w.client.Ask(w.t, "poll", nil)
		must.Equal(w.t, answer.Error, "", "poll")
	}
}

// status is what the worker says of itself.
type status struct {
	Targets map[string]struct{ Length int }
	Clients int `json:"jobPromisesCount"`
	Journal struct{ Events, Mirrored int }
	Doubted int `json:"claimsInDoubt"`
}

func (w *worker) status() (s status) {
	w.t.Helper()
	w.client.Ask(w.t, "status", nil).Decode(w.t, &s)
	return s
}

// length is how many jobs all queues hold, those that run included.
func (s status) length() (n int) {
	for _, target := range s.Targets {
		n += target.Length
	}
	return n
}

// owed is how many events the table does not show yet.
func (s status) owed() int { return s.Journal.Events - s.Journal.Mirrored }

// awaitLength waits until the queues hold so many jobs.
func (w *worker) awaitLength(n int) {
	w.t.Helper()
	harness.Until(w.t, func() string {
		if s := w.status(); s.length() != n {
			return fmt.Sprintf("%d jobs in the queues, not %d", s.length(), n)
		}
		return ""
	})
}

// atMost fails the test where there is more of something than may be.
func atMost[N int | int64](t *testing.T, what string, got, bound N) {
	t.Helper()
	if got > bound {
		t.Errorf("%s: %d, and at most %d may be", what, got, bound)
	}
}

// descriptors is how many files a process has open.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	files := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)))(t)
	return len(files)
}

// goroutines ends a daemon with a list of its goroutines and counts them.
func goroutines(t *testing.T, d *harness.Daemon) int {
	t.Helper()
	d.Signal(t, syscall.SIGQUIT)
	d.ExitCode(t)
	n := strings.Count(d.Output(), "\ngoroutine ")
	if n == 0 {
		t.Fatalf("no list of goroutines:\n%s", d.Output())
	}
	return n
}

// own is the memory of a worker and its runner, without the pages of their program, which they share.
func (w *worker) own() int64 {
	return harness.MemoryOwn(w.t, w.Pid) + harness.MemoryOwn(w.t, w.Runner(w.t))
}

// ignoreRest ends what waits still. The server may end this statement instead of a worker's where they lock rows in
// another order: then it is repeated, as applications do.
func (s *site) ignoreRest() {
	s.t.Helper()
	harness.Until(s.t, func() string {
		if _, err := s.Admin.ExecContext(s.t.Context(), "UPDATE jobs SET status = 'ignored' WHERE status = 'waiting'"); err != nil {
			return err.Error()
		}
		return ""
	})
}

// One client wants more jobs run by hand than a worker does in a minute: they cost it little each, go
// on without the client, and what was not started is given back when the worker stops.
func TestManyManualJobsOfOneClient(t *testing.T) {
	t.Parallel()
	const jobs, bytesEach = 30_000, 2 << 10
	s := newSite(t)
	s.InsertMany(t, jobs, "a", "manual")
	w := s.start("asked", s.gated(), map[string]int{"a": 2})
	w.client.Ask(t, "pause", nil)
	memory := w.own()
	ids := make([]int, jobs)
	for i := range ids {
		ids[i] = i + 1
	}
	client := harness.Dial(t, w.Addr)
	client.Request(t, "run-manual", map[string]any{"ids": ids})
	w.awaitLength(jobs)
	atMost(t, "clients' jobs", w.status().Clients, jobs)
	t.Logf("%d bytes more for each", (w.own()-memory)/jobs)
	atMost(t, "bytes more in memory", w.own()-memory, jobs*bytesEach)
	client.Close()
	harness.Until(t, func() string {
		if n := w.status().Clients; n != 0 {
			return fmt.Sprintf("%d jobs have a client still, which is gone", n)
		}
		return ""
	})
	w.Signal(t, syscall.SIGTERM)
	if code := w.ExitCode(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, w.Output())
	}
	harness.Launch(t, "jobd", w.Config, w.Addr).Ready(t) // what the stop had no time to write, the next start does
	s.AwaitCount(t, jobs, "status = 'manual' AND sig IS NULL")
}

// Jobs write more output than the journal's disk has room for. The worker stops claiming, keeps no more
// outcomes than it has slots, and goes on by itself when the disk is larger.
func TestOutputFillsTheDisk(t *testing.T) {
	t.Parallel()
	const (
		jobs, slots = 1000, 8
		each        = 1 << 20         // bytes, which nothing compresses
		mayHold     = 2 * slots       // those that have a slot, and as many prefetched
		mayShow     = mayHold + slots // and those whose end is being journalled: they have given up their slots
	)
	s := newSite(t)
	s.InsertMany(t, jobs, "a", "waiting")
	dir := filepath.Join(t.TempDir(), "journal")
	harness.SmallDisk(t, dir, "40m")
	launcher := harness.Script(t, fmt.Sprintf("head -c %d /dev/urandom", each)) + " {id}"
	w := s.start("full", launcher, map[string]int{"a": slots}, harness.Settings{
		"journal_dir": dir, "log_level_console": "error", "prefetch": fmt.Sprint(mayHold - slots),
	})
	idle := w.own()
	s.awaitStill(w)
	s.awaitHeldAtMost(w, mayShow)
	atMost(t, "jobs in the queue", w.status().length(), mayHold)
	if s.Count(t, "status = 'waiting'") == 0 {
		t.Fatal("all jobs were claimed: the disk was never full")
	}
	w.poll(500)
	s.awaitHeldAtMost(w, mayShow)
	// The outcomes that may be held, and as much again that was not collected yet.
	atMost(t, "bytes more in memory than without a job", w.own()-idle, 2*mayShow*each)
	must.Do(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=2g,mode=0700"))
	s.awaitDone(s.Count(t, "status = 'done'") + 4*slots)
	if lost := s.Count(t, "status = 'done' AND (result <> 'ok' OR LENGTH(stdout) = 0)"); lost > 0 {
		t.Errorf("%d jobs lost their outcome", lost)
	}
	s.ignoreRest()
	atMost(t, "bytes in memory at most", harness.MemoryOwnPeak(t, w.Pid)+harness.MemoryOwnPeak(t, w.Runner(t)), 56<<20+4*slots*each)
}

// awaitHeldAtMost waits until no more rows are claimed than that: the table shows an end a little later than the journal does.
func (s *site) awaitHeldAtMost(w *worker, most int) {
	s.t.Helper()
	harness.Until(s.t, func() string {
		if held := s.held(); held > most {
			return fmt.Sprintf("rows claimed: %d, and at most %d may be; %d of them run, and the worker says %+v", held, most,
				s.Count(s.t, "status = 'running'"), w.status())
		}
		return ""
	})
}

// awaitStill waits until the journal has taken nothing for some seconds.
func (s *site) awaitStill(w *worker) {
	s.t.Helper()
	before, since := -1, time.Now()
	harness.Until(s.t, func() string {
		if events := w.status().Journal.Events; events != before {
			before, since = events, time.Now()
		}
		if time.Since(since) < 3*time.Second {
			return fmt.Sprintf("the journal still grows: %d events", before)
		}
		return ""
	})
}

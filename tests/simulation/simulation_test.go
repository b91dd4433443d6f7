package simulation

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"jobd/journal"
	"jobd/store/storetest/must"
)

// pass lets time pass.
func pass(d time.Duration) { time.Sleep(d) }

// rest lets time pass, unless ctx ends.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// One thread, so that it depends on the seed alone what happens (with the overlay of make simulate).
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// collect collects garbage, now and then, while nothing else goes on: else it would depend on the machine who
// goes on first.
func (w *world) collect(over <-chan struct{}) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var used runtime.MemStats
	for most := uint64(256 << 20); !isClosed(over); {
		pass(100 * time.Millisecond)
		synctest.Wait()
		if runtime.ReadMemStats(&used); used.HeapAlloc > most {
			runtime.GC()
			runtime.ReadMemStats(&used)
			most = max(most, 2*used.HeapAlloc)
		}
	}
}

// settles is for how long no row may come to its end once all faults are over, while some have not.
const settles = 10 * time.Minute

// run runs a world from its beginning to its end.
func (w *world) run() {
	over := make(chan struct{})
	w.tasks.Go(func() { w.collect(over) })
	for _, l := range w.masters {
		l.rule()
	}
	for _, m := range w.all {
		w.after(w.upTo(5*time.Second), func() { m.boot(nil) })
	}
	pass(6 * time.Second)
	inserted := make(chan struct{})
	w.tasks.Go(func() { w.misfortune(inserted) })
	w.application()
	close(inserted)
	<-w.healed
	for (w.left() > 0 || w.behind()) && len(w.violations) == 0 {
		pass(time.Second)
	}
	for _, m := range w.all {
		m.end()
	}
	for _, l := range w.masters {
		l.stop()
	}
	close(over)
	w.tasks.Wait()
	w.judge()
}

// left is how many rows have not come to their end.
func (w *world) left() int {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if time.Since(w.server.moved) > settles {
		w.violated("nothing happens any more; %d rows have not come to their end", w.server.left)
	}
	return w.server.left
}

// behind tells whether the table does not show all that a journal has, or a claim has no end yet.
func (w *world) behind() bool {
	return slices.ContainsFunc(w.all, func(m *machine) (behind bool) {
		m.history.View(func(s *journal.State) { behind = m.history.position < s.Seq || len(s.Jobs) > 0 })
		return behind
	})
}

// end stops a worker for good.
func (m *machine) end() {
	for stopped := false; !stopped; {
		m.mu.Lock()
		p := m.process
		if stopped = !p.isDead(); stopped {
			m.stopped = true
		}
		m.mu.Unlock()
		if stopped {
			p.stop()
		}
		<-p.ended
		if !stopped {
			pass(time.Second) // the next one begins
		}
	}
}

// simulate runs a scenario.
func simulate(t *testing.T, s scenario) (w *world) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, s.seed)
	synctest.Test(t, func(*testing.T) {
		w = newWorld(s)
		w.run()
	})
	if trace != "" {
		must.Do(t, os.WriteFile(trace, w.told, 0o644))
	}
	return w
}

// number is a variable of the environment that is a number.
func number(name string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return usual
}

// usual is the scenario that the environment asks for: with all kinds of faults, if it names none.
func usual() scenario {
	s := scenario{
		seed: uint64(number("SIM_SEED", 1)), workers: number("SIM_WORKERS", 60), jobs: number("SIM_JOBS", 3000),
		targets: 5, lords: 2, slots: 2, length: 3 * time.Second, each: 100 * time.Millisecond,
		prefetch: number("SIM_PREFETCH", -1),
	}
	for _, kind := range kinds {
		s.faults = append(s.faults, kind.name)
	}
	if named, is := os.LookupEnv("SIM_FAULTS"); is {
		s.faults = strings.Split(named, ",")
	}
	return s
}

func TestSimulation(t *testing.T) {
	for n := range number("SIM_SEEDS", 3) {
		s := usual()
		s.seed += uint64(n)
		t.Run(fmt.Sprint("seed=", s.seed), func(t *testing.T) {
			w := simulate(t, s)
			t.Logf("%d events, hash %x; faults: %v; %.2f commits a job", w.counted, w.events.Sum64(), w.happened, w.perJob(w.server.commits))
			if len(w.violations) > 0 {
				t.Errorf("%d violations:\n%s", len(w.violations), strings.Join(w.violations[:min(20, len(w.violations))], "\n"))
				if trace != "" {
					return
				}
				small := shrink(t, s)
				t.Errorf("to repeat it: make simulate SIM_SEED=%d SIM_WORKERS=%d SIM_JOBS=%d SIM_FAULTS=%s SIM_TRACE=file\n"+
					"Unless make simulate has found it, the order of what happens at one moment is another one there: try some seeds",
					small.seed, small.workers, small.jobs, strings.Join(small.faults, ","))
			}
		})
	}
}

// shrinkTime bounds what is tried to find a smaller scenario that fails.
const shrinkTime = 30 * time.Second

// shrink looks for a smaller scenario that fails, too: less of everything, and fewer kinds of faults.
func shrink(t *testing.T, s scenario) scenario {
	smaller := []func(*scenario){
		func(s *scenario) { s.jobs = (s.jobs + 1) / 2 }, func(s *scenario) { s.jobs = (s.jobs + 1) / 2 },
		func(s *scenario) { s.workers = (s.workers + 1) / 2 }, func(s *scenario) { s.workers = (s.workers + 1) / 2 },
	}
	for _, name := range s.faults {
		smaller = append(smaller, func(s *scenario) {
			s.faults = slices.DeleteFunc(slices.Clone(s.faults), func(other string) bool { return other == name })
		})
	}
	until := time.Now().Add(shrinkTime)
	for _, less := range smaller {
		one := s
		if less(&one); time.Now().Before(until) && len(simulate(t, one).violations) > 0 {
			s = one
		}
	}
	return s
}

// growing is the scenario of one target, half of whose slots are busy with jobs of ten seconds.
func growing(workers, jobs int) scenario {
	length := 10 * time.Second
	return scenario{
		seed: usual().seed, workers: workers, jobs: jobs, targets: 1, lords: 2, slots: 2,
		length: length, each: length / time.Duration(workers), prefetch: usual().prefetch,
	}
}

// How what a job costs, and how long it waits, grow with the workers of one target, half of whose slots are busy.
func TestGrowth(t *testing.T) {
	most := number("SIM_GROWTH", 0)
	if most == 0 {
		t.Skip("SIM_GROWTH=10000 has it go up to so many workers")
	}
	for workers := 1; workers <= most; workers *= 10 {
		s := growing(workers, number("SIM_JOBS", max(2000, workers/2)))
		w := simulate(t, s)
		slices.Sort(w.waits)
		t.Logf("%d workers: %d jobs, %.2f commits, %.2f claims and %.2f polls a job; from insert to start %s (p50), %s (p99)",
			workers, s.jobs, w.perJob(w.server.commits), w.perJob(w.server.claims), w.perJob(w.polls),
			w.waits[len(w.waits)/2], w.waits[len(w.waits)*99/100])
		if len(w.violations) > 0 {
			t.Fatal(w.violations[0])
		}
	}
}

// Regression: rows waited behind jobs of ten seconds, for up to twenty, while the slots of other workers were
// free. What a worker claims ahead waits for its own slots; of such jobs it claims none ahead, and so has none
// to give back.
func TestNoRowWaitsBehindLongJobs(t *testing.T) {
	s := growing(10, 300)
	s.prefetch = -1
	w := simulate(t, s)
	slices.Sort(w.waits)
	if slowest := w.waits[len(w.waits)*99/100]; slowest > 100*time.Millisecond || w.releases > 0 || len(w.violations) > 0 {
		t.Errorf("from insert to start %s (p99), %d rows were given back; %v", slowest, w.releases, w.violations)
	}
}

func (w *world) perJob(n int) float64 { return float64(n) / float64(w.jobs) }

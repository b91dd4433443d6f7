package pressure

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// answering is a worker, as a master sees it, that answers whatever it is asked with so many bytes of
// data, over and over, until the test ends. Where it is dropped it comes again.
func answering(t *testing.T, addr, name string, bytes int, until <-chan struct{}, all *sync.WaitGroup) {
	t.Helper()
	register := func() *harness.Wire {
		w := harness.Dial(t, addr)
		answer := w.Ask(t, "register-worker", map[string]any{"name": name, "targets": []string{"a"}})
		must.Equal(t, answer.Error, "")
		return w
	}
	w := register()
	piece := []byte(strings.Repeat("x", 1<<20))
	all.Go(func() {
		defer w.Close()
		for {
			frame, err := w.Receive(100 * time.Millisecond)
			select {
			case <-until:
				return
			default:
			}
			if err != nil {
				continue
			}
			var kind int
			var request harness.Response
			if err := json.Unmarshal([]byte(frame), &[]any{&kind, &request}); err != nil {
				t.Errorf("%.100q: %v", frame, err)
				return
			}
			switch kind {
			case 2:
				err = w.Write([]byte("[3]\x04"))
			case 0:
				err = w.Write(fmt.Appendf(nil, `[1,{"no":%d,"data":{"x":"`, request.No))
				for sent := 0; sent < bytes && err == nil; sent += len(piece) {
					err = w.Write(piece[:min(len(piece), bytes-sent)])
				}
				if err == nil {
					err = w.Write([]byte("\"}}]\x04"))
				}
			}
			if err != nil { // the master has had enough
				return
			}
		}
	})
}

// Six workers answer with 256 MiB each: the master bounds what it takes of all of them together, and
// goes on with the honest one. Of ten it took 1.3 GiB.
//
// It runs alone: a collector that does not come to its turn lets the peak grow.
func TestMasterWithWorkersThatAnswerTooMuch(t *testing.T) {
	const mayTake = 600 << 20
	master := harness.StartMaster(t, harness.Settings{"log_level_console": "error"})
	until := make(chan struct{})
	var all sync.WaitGroup
	for n := range 6 {
		answering(t, master.Addr, fmt.Sprintf("rogue%d", n), 256<<20, until, &all)
	}
	answering(t, master.Addr, "honest", 10, until, &all)
	client := harness.Dial(t, master.Addr)
	for range 2 {
		answer := client.Ask(t, "status", map[string]any{"poll_workers": true})
		if !strings.Contains(string(answer.Data), `"workerStatus":{"x":"xxxxxxxxxx"}`) {
			t.Errorf("the honest worker's answer is missing: %.2000s %s", answer.Data, answer.Error)
		}
	}
	close(until)
	t.Logf("%d MiB at most", harness.MemoryPeak(t, master.Pid)>>20)
	atMost(t, "bytes in memory", int(harness.MemoryPeak(t, master.Pid)), mayTake)
	all.Wait()
}

// A backlog that no worker can do at once, and two targets that share it.
const backlog = 20_000

// What the workers of these tests may have claimed: slots, and prefetch beyond them for each target.
const (
	slots    = 4 + 2
	prefetch = 3
	mayHold  = slots + 2*prefetch
)

// pressed starts a worker on the backlog and waits until it holds what it may.
func (s *site) pressed(others ...harness.Settings) *worker {
	s.t.Helper()
	s.InsertMany(s.t, backlog, "a", "waiting")
	s.Exec(s.t, "UPDATE jobs SET target = 'b' WHERE id % 2 = 0")
	settings := harness.Settings{"prefetch": fmt.Sprint(prefetch)}.With(others...)
	w := s.start("pressed", s.gated(), map[string]int{"a": 4, "b": 2}, settings)
	s.AwaitCount(s.t, slots, "status = 'running'")
	s.AwaitCount(s.t, mayHold, "status IN ('accepted', 'running')")
	w.awaitLength(mayHold) // the table shows a claim before the worker has heard that it was committed
	return w
}

// Launchers that never end hold their slots, and nothing else: however often the worker is poked, it claims and
// starts no more, and opens nothing.
func TestSlowLauncherHoldsUpClaims(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.pressed()
	before, memory := descriptors(t, w.Pid), w.own()
	w.poll(2000)
	atMost(t, "rows claimed", s.held(), mayHold)
	atMost(t, "jobs in the queues", w.status().length(), mayHold)
	atMost(t, "descriptors of the worker", descriptors(t, w.Pid), before+8)
	atMost(t, "descriptors of the runner", descriptors(t, w.Runner(t)), 16+4*slots)
	atMost(t, "bytes more in memory", w.own()-memory, 16<<20)
	w.awaitLength(mayHold)
	atMost(t, "goroutines", goroutines(t, w.Daemon), 40+4*mayHold)
}

// With the database away after a claim, what runs ends into the journal, and the prefetched jobs wait. Nothing more
// is claimed, what the table is owed is what those jobs can tell, and asking again and again changes nothing.
func TestDatabaseAwayHoldsUpEverything(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		offline string
		remain  int // jobs that can't be started
	}{
		"prefetched jobs wait":                     {"wait", mayHold - slots},
		"prefetched jobs run on the journal alone": {"run", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			w := s.pressed(harness.Settings{"launch_offline": c.offline})
			s.link.Away()
			w.poll(1)
			s.open()
			w.awaitLength(c.remain)
			before, memory := descriptors(t, w.Pid), w.own()
			w.poll(2000)
			found := w.status()
			atMost(t, "jobs in the queues", found.length(), c.remain)
			atMost(t, "events that the table is owed", found.owed(), 4*mayHold) // accepted, running, started, done
			atMost(t, "claims in doubt", found.Doubted, mayHold)
			atMost(t, "rows claimed", s.held(), mayHold)
			atMost(t, "descriptors", descriptors(t, w.Pid), before+8)
			atMost(t, "bytes more in memory", w.own()-memory, 16<<20)
			s.link.Back()
			s.awaitAtMost(500, mayHold+slots)
		})
	}
}

// awaitAtMost waits until so many jobs are done, and counts all the time how many are claimed. Each slot
// may have one that has ended and whose row does not show it yet: where there are more, claims wait for just that.
func (s *site) awaitAtMost(done, most int) {
	s.t.Helper()
	harness.Until(s.t, func() string {
		atMost(s.t, "rows claimed", s.held(), most)
		if got := s.Count(s.t, "status = 'done'"); got < done {
			return fmt.Sprintf("%d jobs are done, not %d", got, done)
		}
		return ""
	})
}

// Three targets have thousands of rows. A job of a fourth, which has none, is started after a poke
// before many of the others are: it does not queue behind them.
func TestNewJobDoesNotWaitForTheBacklogOfOtherTargets(t *testing.T) {
	t.Parallel()
	const rows, mayPassBy = 9000, 100
	s := newSite(t)
	s.InsertMany(t, rows, "busy0", "waiting")
	s.Exec(t, "UPDATE jobs SET target = CONCAT('busy', id % 3)")
	log := filepath.Join(t.TempDir(), "started")
	launcher := harness.Script(t, "echo $1 >> "+log) + " {id}"
	w := s.start("fair", launcher, map[string]int{"busy0": 4, "busy1": 4, "busy2": 4, "idle": 4})
	s.awaitDone(100)
	for id := int64(rows + 1); id <= rows+5; id++ {
		s.Insert(t, id, "idle", "waiting")
		before := len(started(t, log))
		w.client.Ask(t, "poll", map[string]any{"targets": []string{"idle"}})
		s.AwaitDone(t, id)
		at := slices.Index(started(t, log), fmt.Sprint(id))
		atMost(t, "other jobs started between the poke and the start", at-before, mayPassBy)
	}
	if s.Count(t, "status = 'waiting'") == 0 {
		t.Error("the backlog was gone: nothing was tried")
	}
	s.ignoreRest()
}

// started lists the jobs in the order of their starts.
func started(t *testing.T, log string) []string {
	t.Helper()
	text := must.Get(os.ReadFile(log))(t)
	return strings.Fields(string(text))
}

// awaitDone waits until so many jobs are done.
func (s *site) awaitDone(n int) {
	s.t.Helper()
	harness.Until(s.t, func() string {
		if got := s.Count(s.t, "status = 'done'"); got < n {
			return fmt.Sprintf("%d jobs are done, not %d", got, n)
		}
		return ""
	})
}

// mostMemory is what a master may take beside any flood, in bytes. The floods are larger by far.
const mostMemory = 1 << 30

// mostLog is how much of the log any flood may write, in bytes.
const mostLog = 1 << 20

// Floods of those who don't know the password: what a frame asks for is not looked at, but for how long it is,
// how often one comes, and how deep it is to read.
var asStrangers = map[string]bool{"registrations of a million targets": true, "deep nesting": true}

// However peers flood a master, who knows its password or not, its memory is bounded, it writes little to its log, and
// an honest client is answered.
func TestMasterBesideFloods(t *testing.T) {
	t.Parallel()
	for _, flood := range harness.MasterFloods() {
		for _, knows := range []bool{true, false} {
			name, password := flood.Name+" with the password", "s3cret"
			if !knows {
				name, password = flood.Name+" without the password", ""
				if !asStrangers[flood.Name] {
					continue
				}
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				master := harness.StartMaster(t, harness.Settings{"password": "s3cret", "poke_throttle_interval": "0.05"})
				harness.Fleet(t, master, "s3cret", 200)
				before := len(master.Output())
				stop := flood.Start(t, master.Addr, password)
				took := harness.Honest(t, master, "s3cret", time.Second)
				sent := stop()
				memory, log := harness.MemoryPeak(t, master.Pid), len(master.Output())-before
				t.Logf("%d frames: %d answers, p50 %v, p99 %v, longest %v; memory at most %d MB; %d bytes of log",
					sent, len(took), took[len(took)/2], took[(len(took)-1)*99/100], took[len(took)-1], memory/1e6, log)
				if memory > mostMemory {
					t.Errorf("the master took %d MB", memory/1e6)
				}
				if log > mostLog {
					t.Errorf("the flood wrote %d bytes of log, among them %.500s", log, master.Output()[before:])
				}
			})
		}
	}
}

// The worker stands still while its jobs end, each with much more output than is kept: the runner keeps one
// outcome a slot, within the limit, and nothing else of the jobs, until the worker asks for them.
func TestRunnerKeepsOutcomesOfAWorkerThatStandsStill(t *testing.T) {
	t.Parallel()
	const slots, written, kept = 8, 16 << 20, 1 << 20
	s := newSite(t)
	s.InsertMany(t, 1000, "a", "waiting")
	launcher := harness.Script(t, fmt.Sprintf("while [ ! -e %s ]; do sleep 0.2; done; head -c %d /dev/zero", s.gate, written))
	w := s.start("still", launcher+" {id}", map[string]int{"a": slots}, harness.Settings{"prefetch": "0"})
	runner := w.Runner(t)
	before := descriptors(t, runner)
	s.AwaitCount(t, slots, "status = 'running'")
	memory := harness.Memory(t, runner)
	w.Signal(t, syscall.SIGSTOP)
	s.open()
	harness.Until(t, func() string {
		if now := descriptors(t, runner); now > before {
			return fmt.Sprintf("the runner has %d files open, and had %d before the jobs", now, before)
		}
		return ""
	})
	atMost(t, "bytes of outcomes in the runner", harness.Memory(t, runner)-memory, 2*slots*kept)
	atMost(t, "rows claimed", s.held(), slots)
	w.Signal(t, syscall.SIGCONT)
	s.awaitDone(slots + 1)
	if wrong := s.Count(t, "status = 'done' AND (result <> 'ok' OR LENGTH(stdout) < ?)", kept); wrong > 0 {
		t.Errorf("%d outcomes are not what the jobs wrote", wrong)
	}
	s.ignoreRest()
}

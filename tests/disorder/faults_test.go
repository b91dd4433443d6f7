package disorder

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// stop asks a worker to stop, and does not wait for it.
func (s *site) stop(w *worker) {
	if s.up(w) {
		w.daemon.Signal(s, syscall.SIGTERM)
		w.stopping = true
		w.killed++
	}
}

// start starts a worker that does not run. One that is still stopping is given some time.
func (s *site) start(w *worker) {
	if w.stopping && !s.stopped(w, 10*time.Second) {
		return
	}
	if w.armed && w.daemon != nil { // it is given some time to die
		within(deathTime, func() bool { return !w.daemon.Running() })
	}
	s.disarm(w)
	if s.up(w) {
		return
	}
	s.launch(w)
	s.hint(w.name, nil) // a worker looks when it starts
}

// deathTime is how long a worker may take to come to the point at which it is to die: most do so at once, and
// drawn schedules have some that never do.
const deathTime = 20 * time.Second

// stopped waits until a worker that was asked to stop has done so.
func (s *site) stopped(w *worker, patience time.Duration) bool {
	if !within(patience, func() bool { return !w.daemon.Running() }) {
		return false
	}
	w.gone = w.daemon.ExitCode(s) == 0
	w.daemon, w.stopping = nil, false
	return true
}

// dieAt starts a worker that kills itself at the nth time that it reaches a point. Where it runs, it is killed before.
func (s *site) dieAt(w *worker, point string, nth int) {
	s.kill(w)
	harness.Arm(s, w.settings["journal_dir"], point, nth)
	w.armed = true
	s.launch(w)
	s.hint(w.name, nil)
}

// disarm ends a worker that was to die and has not.
func (s *site) disarm(w *worker) {
	if w.armed {
		s.kill(w)
		harness.Disarm(s, w.settings["journal_dir"])
		w.armed = false
	}
}

func (s *site) kill(w *worker) {
	if w.daemon == nil || !w.stopping && !s.up(w) {
		return
	}
	if w.daemon.Running() {
		w.daemon.Kill(s)
	}
	w.daemon, w.stopping = nil, false
	w.killed++
}

// crash kills the worker, its runner and its jobs, as a host does that loses power.
func (s *site) crash(w *worker) {
	if !s.up(w) {
		return
	}
	w.daemon.Crash(s)
	w.daemon, s.crashed = nil, true
	w.killed++
}

func (s *site) killRunner(w *worker) {
	if pid := harness.RunnerOf(w.settings["journal_dir"]); pid != 0 {
		s.crashed = true
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be ending by itself
	}
}

func (s *site) killMaster() {
	if s.master.daemon != nil {
		s.master.daemon.Kill(s)
		s.master.daemon = nil
		s.master.killed++
	}
}

// startMaster starts the master where it does not run. Workers that register look.
func (s *site) startMaster() {
	if s.master.daemon != nil {
		return
	}
	s.launchMaster()
	s.master.daemon.Ready(s)
	s.hint(all, nil)
}

// restartServer kills the database server and starts it again: open transactions are gone, with their rows and locks.
func (s *site) restartServer() {
	s.disturbed = true
	for _, t := range s.open {
		for _, r := range t.hidden {
			r.hidden, r.deleted = false, true
			r.lives = 0
		}
	}
	must.Do(s, s.server.Kill(), "kill the database server")
	for _, t := range s.open {
		_ = t.tx.Rollback() // its connection is gone
	}
	s.open = nil
	must.Do(s, s.server.Restart(s.Context()), "start the database server")
}

// readOnly has the server refuse all changes but the application's, as after a failover, or take them again.
func (s *site) readOnly(value int) {
	s.disturbed, s.isReadOnly = true, value == 1
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	if _, err := s.server.Admin().ExecContext(ctx, fmt.Sprintf("SET GLOBAL read_only = %d", value)); err != nil {
		s.Logf("read_only = %d: %v", value, err) // MySQL waits for all open transactions
	}
}

// breakCommit breaks a worker's link around the next COMMIT that it sends.
func (s *site) breakCommit(w *worker, how string) {
	s.disturbed = true
	faults := map[string]linkproxy.Fault{"unsent": linkproxy.Unsent, "unanswered": linkproxy.Unanswered, "held": linkproxy.Held}
	w.release()
	broken := w.commits.Break("; COMMIT", faults[how])
	w.release, w.held = sync.OnceFunc(broken.Release), how == "held"
}

// within waits until a condition holds; false where it does not in that time.
func within(patience time.Duration, condition func() bool) bool {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(25 * time.Millisecond)
	defer again.Stop()
	for !condition() {
		select {
		case <-again.C:
		case <-deadline.C:
			return condition()
		}
	}
	return true
}

// spoilt is a worker's way to the table, about to be made bad.
func (s *site) spoilt(name string) *way {
	s.disturbed = true
	return s.worker(name).table
}

// stopTime is how long a worker may take to stop when everything is well, or to be known: longer than any
// job, and than shutdown_timeout. The rest is for a busy machine.
const stopTime = time.Minute

// heal ends everything that was wrong. It gives nobody a hint that the rules do not: rows that nobody was told of
// since they were committed are poked for, as their application would have done.
func (s *site) heal() {
	for len(s.open) > 0 {
		s.endOldest(func(*transaction) bool { return true })
	}
	s.allow()
	if s.isReadOnly {
		s.readOnly(0)
	}
	for _, w := range s.workers {
		w.release()
		w.held = false
		w.commits.Break("no statement has this", linkproxy.Unsent)
		w.table.heal()
		w.line.heal()
	}
	s.startMaster()
	for _, w := range s.workers {
		s.disarm(w)
		if w.stopping && !s.stopped(w, stopTime) {
			s.violated("stop", "%s did not stop within %s", w.name, stopTime)
			s.kill(w)
		}
		s.start(w)
	}
	s.Logf("healed; the workers are to be ready")
	for _, w := range s.workers {
		s.ready(w)
	}
	s.pokeForTheRest()
	for _, r := range s.rows {
		if r.recurs {
			r.runs = len(s.oracle.Starts(s, r.id))
		}
	}
	s.Logf("healed")
}

// ready makes a worker what it was at first.
func (s *site) ready(w *worker) {
	answers := within(stopTime, func() bool {
		_, err := exchange(w.settings.Addr(), "status", nil, answerTime)
		return err == nil || !s.up(w)
	})
	if !answers {
		s.violated("worker ended", "%s does not answer: …%s", w.name, tail(w.daemon.Output(), 1500))
	}
	if w.edited {
		slots := number(s.choice["slots"])
		s.takeOver(w, map[string]int{"a": slots, "b": slots})
	}
	for target := range w.paused {
		s.resume(w, target)
	}
}

// pokeForTheRest pokes for rows that nobody was told of.
func (s *site) pokeForTheRest() {
	for _, target := range []string{"a", "b"} {
		if slices.ContainsFunc(s.rows, func(r *row) bool { return r.target == target && !r.deleted && !r.manual && len(r.hinted) == 0 }) {
			s.poke(target)
		}
	}
}

// atRest is what a row must read when all is over: one that recurs has run twice since then.
func (s *site) atRest(r *row, found record) bool {
	switch {
	case r.recurs && !r.deleted && found.status == delayed && r.target != "c" && found.target != "NULL":
		if r.far {
			return found.plannedAt > 0
		}
		return len(s.oracle.Starts(s, r.id)) >= r.runs+2
	case r.deleted || found.status == "done" || r.cancelled && found.status == "ignored":
		return true
	case r.manual:
		return found.status == "manual"
	case r.target == "c" || found.target == "NULL":
		return found.status == waiting || found.status == delayed
	}
	return false
}

// settleAtTheEnd waits until every row is at rest.
func (s *site) settleAtTheEnd() {
	var missing []*row
	left := s.settle(func(table map[int64]record) string {
		missing = nil
		for _, r := range s.rows {
			if !s.atRest(r, table[r.id]) {
				missing = append(missing, r)
			}
		}
		return describe(missing, table)
	})
	if left == "" {
		return
	}
	rule := "stuck"
	table := s.readTable()
	if slices.ContainsFunc(missing, func(r *row) bool { return table[r.id].status == waiting }) {
		rule = "stranded"
	}
	var hints []string
	for _, r := range missing {
		hints = append(hints, fmt.Sprint(slices.Sorted(maps.Keys(r.hinted))))
	}
	s.violated(rule, "for %s nothing happened to %s; told of them were %v", settleTime, left, hints)
}

// registered is what the master says of a worker.
type registered struct {
	Name    string
	Targets []string
}

// awaitRegistered waits until the master lists each worker once, with its targets.
func (s *site) awaitRegistered() {
	var text json.RawMessage
	well := within(stopTime, func() bool {
		var err error
		if text, err = exchange(s.master.settings.Addr(), "status", nil, answerTime); err != nil {
			return false
		}
		var status struct{ Workers []registered }
		if err := json.Unmarshal(text, &status); err != nil || len(status.Workers) != len(s.workers) {
			return false
		}
		for _, w := range s.workers {
			i := slices.IndexFunc(status.Workers, func(r registered) bool { return r.Name == w.name })
			if i < 0 || fmt.Sprint(slices.Sorted(slices.Values(status.Workers[i].Targets))) != "[a b]" {
				return false
			}
		}
		return true
	})
	if !well {
		s.violated("registration", "the master does not list each worker once with its targets a and b: %.600s", text)
	}
}

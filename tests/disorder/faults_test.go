package disorder

import (
	"syscall"
	"time"

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
	if w.stopping && !s.stopped(w, 10*time.Second) || s.up(w) {
		return
	}
	s.launch(w)
	s.hint(w.name, nil) // a worker looks when it starts
}

// stopped waits until a worker that was asked to stop has done so.
func (s *site) stopped(w *worker, patience time.Duration) bool {
	if !within(patience, func() bool { return !w.daemon.Running() }) {
		return false
	}
	w.gone = w.daemon.ExitCode(s) == 0
	w.daemon, w.stopping = nil, false
	return true
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
	if err := s.server.Kill(); err != nil {
		s.Fatalf("kill the database server: %v", err)
	}
	for _, t := range s.open {
		_ = t.tx.Rollback() // its connection is gone
	}
	s.open = nil
	if err := s.server.Restart(s.Context()); err != nil {
		s.Fatalf("start the database server: %v", err)
	}
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

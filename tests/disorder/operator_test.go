package disorder

import (
	"maps"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/must"
)

// fields are a request's data.
type fields map[string]any

// hint notes that somebody was asked to look for rows of some targets, nil being all that it serves.
// Only rows that were committed before count.
func (s *site) hint(by string, targets []string) {
	for _, r := range s.rows {
		if r.hidden || r.deleted || targets != nil && !slices.Contains(targets, r.target) {
			continue
		}
		if by == all || s.worker(by).targets[r.target] > 0 {
			r.hinted[by] = true
		}
	}
}

// forget notes that what a worker was asked for is void: it does not serve the target any more.
func (s *site) forget(w *worker, target string) {
	for _, r := range s.rows {
		if r.target == target {
			delete(r.hinted, w.name)
		}
	}
}

func (s *site) poke(target string) {
	if s.askMaster("poke", fields{"targets": []string{target}}) {
		s.hint(all, []string{target})
	}
}

func (s *site) poll(w *worker) {
	if s.askWorker(w, "poll", nil) {
		s.hint(w.name, nil)
	}
}

// cancel asks a worker to cancel a job, whether that has it, another one, or nobody.
func (s *site) cancel(w *worker, nth int) {
	r := s.row(nth)
	if r == nil || !s.up(w) {
		return
	}
	r.cancelled = true
	s.askWorker(w, "cancel", fields{"ids": []int64{r.id}, "grace": 300, "rows": true})
}

// retry asks a worker to set back rows that have ended, whatever becomes of the worker meanwhile: whether they
// are set back is known only where it answers.
func (s *site) retry(w *worker, nth, n int) {
	ids := []int64{}
	within(stopTime, func() bool { return !s.up(w) || listens(w.settings.Addr()) })
	for i := range n {
		if r := s.row(nth + i); r != nil && !r.hidden && !r.deleted && !r.manual && !r.recurs && s.up(w) {
			r.lives, r.retried, r.hinted = r.lives+1, true, map[string]bool{}
			ids = append(ids, r.id)
		}
	}
	if len(ids) > 0 && s.askWorker(w, "retry", fields{"ids": ids}) {
		s.hint(w.name, nil) // it looks for what it has set back
	}
}

// window is a time in which a worker was to start nothing of a target, in ticks since boot: from the
// answer to pause, to the moment before anything could end it.
type window struct {
	worker, target string
	from, to       int64 // to: 0 as long as it lasts
}

// ticks is the time since boot as /proc counts it.
func (s *site) ticks() int64 {
	var now unix.Timespec
	must.Do(s, unix.ClockGettime(unix.CLOCK_BOOTTIME, &now), "read the clock")
	const perSecond = 100 // USER_HZ
	return now.Nano() / (1_000_000_000 / perSecond)
}

func (s *site) pause(w *worker, target string) {
	if s.askWorker(w, "pause", fields{"targets": []string{target}}) {
		s.endWindows(w, target)
		w.paused[target] = true
		s.windows = append(s.windows, window{worker: w.name, target: target, from: s.ticks()})
	}
}

func (s *site) resume(w *worker, target string) {
	s.endWindows(w, target)
	if s.askWorker(w, "continue", fields{"targets": []string{target}}) {
		delete(w.paused, target)
		if w.targets[target] > 0 {
			s.hint(w.name, []string{target}) // continue also polls
		}
	}
}

// endWindows ends a worker's pauses of a target, "" being all.
func (s *site) endWindows(w *worker, target string) {
	now := s.ticks()
	for i := range s.windows {
		if p := &s.windows[i]; p.worker == w.name && (target == "" || p.target == target) && p.to == 0 {
			p.to = now
		}
	}
}

// pauseAll pauses through the master: which of the workers it reaches at this moment is not known.
func (s *site) pauseAll(target string) {
	s.askMaster("pause", fields{"targets": []string{target}})
	for _, w := range s.workers {
		w.paused[target] = true
	}
}

func (s *site) continueAll(target string) {
	for _, w := range s.workers {
		s.endWindows(w, target)
	}
	s.askMaster("continue", fields{"targets": []string{target}})
}

func (s *site) addTarget(w *worker, target string, slots int) {
	if w.targets[target] == 0 {
		s.endWindows(w, target)
	}
	if s.askWorker(w, "add-target", fields{"target": target, "concurrency": slots}) {
		w.allot(target, slots)
	}
}

// allot notes what the worker may run of a target.
func (w *worker) allot(target string, slots int) {
	w.targets[target], w.edited = slots, true
	w.most[target] = max(w.most[target], slots)
}

func (s *site) removeTarget(w *worker, target string) {
	w.edited = true
	if s.askWorker(w, "remove-target", fields{"target": target}) {
		delete(w.targets, target)
		s.forget(w, target)
	}
}

func (s *site) setSlots(w *worker, target string, slots int) {
	if s.askWorker(w, "set-target-concurrency", fields{"target": target, "concurrency": slots}) {
		w.allot(target, slots)
	}
}

// reload changes the targets in the configuration file and has the worker read it.
func (s *site) reload(w *worker, set string, slots int) {
	file := map[string]int{}
	for _, target := range set {
		file[string(target)] = slots
	}
	s.takeOver(w, file)
}

func (s *site) takeOver(w *worker, file map[string]int) {
	if !s.askWorker(w, "status", nil) { // a process that is just starting would die of the signal
		return
	}
	w.file, w.edited = file, true
	s.writeConfig(w)
	for target := range w.targets {
		if file[target] == 0 {
			s.forget(w, target)
		}
	}
	for target := range file {
		if w.targets[target] == 0 {
			s.endWindows(w, target)
		}
	}
	for target, slots := range file {
		w.allot(target, slots)
	}
	w.targets = maps.Clone(file)
	w.daemon.Signal(s, syscall.SIGHUP)
}

package exec

import (
	"math/rand/v2"
	"time"
)

// Poll makes the worker look for jobs of some targets (none named: all). It returns at once; what
// was asked for is not forgotten until the table has answered, however long it is away. Where the
// launcher can't be executed, that is looked at again at once.
func (w *Worker) Poll(names []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	targets, err := w.find(names)
	if err != nil {
		return err
	}
	w.follow(w.board.LookSoon(time.Now()))
	w.poll(targets)
	return nil
}

// PollAll is Poll for all targets.
func (w *Worker) PollAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	targets, _ := w.find(nil)
	w.poll(targets)
}

// GivenBack is Poll for those of some targets that are served here: rows of theirs wait again.
func (w *Worker) GivenBack(names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if t, served := w.targets[name]; served {
			t.sweepSoon(time.Now())
		}
		w.pollNamed(name)
	}
}

// pollNamed polls for a target, if it is served here. Callers must hold w.mu.
func (w *Worker) pollNamed(name string) {
	if t, served := w.targets[name]; served {
		w.poll([]*target{t})
	}
}

// poll notes that targets want a look at the table. Callers must hold w.mu.
func (w *Worker) poll(targets []*target) {
	for _, t := range targets {
		t.polls++
	}
	w.wake()
}

// find gives the targets of these names, or all. Callers must hold w.mu.
func (w *Worker) find(names []string) ([]*target, error) {
	if names == nil {
		names = w.board.Names()
	}
	targets := make([]*target, 0, len(names))
	for _, name := range names {
		t, ok := w.targets[name]
		if !ok {
			return nil, RefusedError("invalid target '" + name + "'")
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// nextPoll is the time of the next poll that nobody asks for; zero where there is none. It is off
// by up to a fifth of the interval, so that workers that were started together do not poll
// together.
func (w *Worker) nextPoll(now time.Time) time.Time {
	if w.PollInterval <= 0 {
		return time.Time{}
	}
	fifth := w.PollInterval / 5
	return now.Add(w.PollInterval - fifth + rand.N(2*fifth+1))
}

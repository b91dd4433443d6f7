package exec

import (
	"fmt"
	"slices"
	"time"

	"jobd/journal"
)

// Every change of targets is journalled before it takes effect, with who asked for it.

// Pause makes targets (none named: all) start nothing until they are continued. What runs goes on. Background jobs that
// have not started are given back; manual ones, whose clients want them run here, wait. Nothing starts
// any more when Pause has returned.
func (w *Worker) Pause(names []string, by string) error {
	err := w.setPaused(names, true, func(names []string) journal.Payload {
		return journal.Paused{Targets: names, By: by}
	})
	if err != nil {
		return err
	}
	return w.awaitStarts(names)
}

// startsTimeout is for a runner to tell of starts that it was asked for. It takes milliseconds, unless it stands still.
const startsTimeout = 10 * time.Second

// awaitStarts waits until the runner has told of all starts that it was asked for, for targets that are paused by now: those
// that it has not read yet can't be taken back.
func (w *Worker) awaitStarts(names []string) error {
	timer := time.NewTimer(w.startsTimeout)
	defer timer.Stop()
	pending := w.pendingStarts(names)
	for i, process := range pending {
		select {
		case <-process.Begun():
		case <-process.Ended():
		case <-timer.C:
			return RefusedError(fmt.Sprintf("paused, but %d jobs may still start: the runner was asked for them, and does not answer", len(pending)-i))
		}
	}
	return nil
}

// pendingStarts lists the processes that the runner was asked for, and of which it has told nothing.
func (w *Worker) pendingStarts(names []string) (pending []Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		asked := j.process != nil && (names == nil || slices.Contains(names, j.target.name))
		if asked && !isClosed(j.process.Begun()) && !isClosed(j.process.Ended()) {
			pending = append(pending, j.process)
		}
	}
	return pending
}

// Continue ends a pause, and polls.
func (w *Worker) Continue(names []string, by string) error {
	return w.setPaused(names, false, func(names []string) journal.Payload {
		return journal.Continued{Targets: names, By: by}
	})
}

func (w *Worker) setPaused(names []string, paused bool, event func([]string) journal.Payload) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	names, err := w.named(names)
	if err != nil {
		return err
	}
	if _, err := w.append(journal.Draft{Payload: event(names)}); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	targets, err := w.find(names)
	if err != nil {
		return err
	}
	for _, t := range targets {
		t.paused = paused
	}
	if paused {
		w.holdBack(targets)
		return nil
	}
	w.lookSoon()
	w.poll(targets)
	for _, t := range targets {
		w.dispatch(t)
	}
	return nil
}

// holdBack takes back what has not started, and waits for starts that are under way: the runner
// is being asked for them at this moment. The lock is held.
func (w *Worker) holdBack(targets []*target) {
	for _, t := range targets {
		w.takeBackAll(t)
	}
	for _, t := range targets {
		for t.starts > 0 {
			w.quiet.Wait()
		}
	}
}

// named gives the names of the targets that a request means.
func (w *Worker) named(names []string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	targets, err := w.find(names)
	if err != nil {
		return nil, err
	}
	all := make([]string, len(targets))
	for i, t := range targets {
		all[i] = t.name
	}
	return all, nil
}

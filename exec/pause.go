package exec

import (
	"fmt"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// Every change of targets is journalled before it takes effect, with who asked for it.

// Pause makes targets (none named: all) start nothing until they are continued. What runs goes on.
// Background jobs that have not started are given back; manual ones, whose clients want them run
// here, wait. Nothing starts any more when Pause has returned.
func (w *Worker) Pause(names []string, by string) error {
	err := w.setPaused(names, true, by, func(names []string) journal.Payload {
		return journal.Paused{Targets: names, By: by}
	})
	if err != nil {
		return err
	}
	return w.awaitStarts(names)
}

// startsTimeout is for a runner to tell of starts that it was asked for. It takes milliseconds,
// unless it stands still.
const startsTimeout = 10 * time.Second

// awaitStarts waits until the runner has told of all starts that it was asked for, for targets that
// are paused by now: those that it has not read yet can't be taken back.
func (w *Worker) awaitStarts(names []string) error {
	timer := time.NewTimer(w.startsTimeout)
	defer timer.Stop()
	w.mu.Lock()
	pending := w.board.MovesFrom(board.Asked, names)
	w.mu.Unlock()
	w.withdraw(names)
	for i, told := range pending {
		select {
		case <-told:
		case <-timer.C:
			return RefusedError(fmt.Sprintf("paused, but %d jobs may still start: the runner was asked for them, and does not answer", len(pending)-i))
		}
	}
	return nil
}

// withdraw takes back the starts of some targets (nil: all) that wait for a process still, which may
// have to be loaded first.
func (w *Worker) withdraw(targets []string) {
	w.mu.Lock()
	unanswered := w.board.Unanswered(targets)
	w.mu.Unlock()
	for _, process := range unanswered {
		takeBack(process)
	}
}

// Continue ends a pause, and polls.
func (w *Worker) Continue(names []string, by string) error {
	return w.setPaused(names, false, by, func(names []string) journal.Payload {
		return journal.Continued{Targets: names, By: by}
	})
}

func (w *Worker) setPaused(names []string, paused bool, by string, event func([]string) journal.Payload) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	names, err := w.named(names)
	if err != nil {
		return err
	}
	events, err := w.append(journal.Draft{Payload: event(names)})
	if err != nil {
		return err
	}
	targets := make([]*board.Target, 0, len(names))
	var asking []<-chan struct{}
	w.change(func(b *board.Board) board.Effects {
		for _, name := range names { // w.changing is held: all are served still
			targets = append(targets, b.Target(name))
		}
		var e board.Effects
		if paused {
			e = b.Pause(targets, events[0].Time, by)
		} else {
			e = b.Continue(targets)
		}
		asking = b.MovesFrom(board.Asking, names)
		return e
	})
	if !paused {
		return w.Poll(names)
	}
	for _, asked := range asking {
		<-asked
	}
	return nil
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
		all[i] = t.Name()
	}
	return all, nil
}

package exec

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"jobd/exec/board"
	"jobd/journal"
)

// SetTargets makes the targets what is wanted, concurrency by name, compared with what they are:
// whatever was changed meanwhile, by whom, and whatever retirement is under way. What can't be done
// is among the error's causes; the rest is done, and a second call does what is left.
func (w *Worker) SetTargets(wanted map[string]int, by string) error {
	var errs []error
	done := func(what, name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", what, name, err))
		}
	}
	for _, name := range w.TargetNames() {
		if _, stays := wanted[name]; !stays {
			done("remove target", name, w.retireTarget(name, by))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		switch now, serves := w.concurrency(name); {
		case !serves:
			done("add target", name, w.AddTarget(name, wanted[name], by))
		case now != wanted[name]:
			done("set concurrency of target", name, w.SetConcurrency(name, wanted[name], by))
		}
	}
	return errors.Join(errs...)
}

// concurrency is the limit of a target; serves is false where it is not served, or about to be
// removed.
func (w *Worker) concurrency(name string) (n int, serves bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t, there := w.targets[name]; there && t.RetiredBy() == "" {
		return t.Concurrency(), true
	}
	return 0, false
}

// AddTarget makes the worker serve one more target, or again one that was to be removed when it is
// empty. A name that the table does not take is refused, where the table says so soon.
func (w *Worker) AddTarget(name string, concurrency int, by string) error {
	w.adding.Lock()
	defer w.adding.Unlock()
	if concurrency < 1 {
		return RefusedError("Invalid concurrency value.")
	}
	if w.keep(name) {
		return w.SetConcurrency(name, concurrency, by)
	}
	if w.serves(name) {
		return RefusedError("target '" + name + "' already added")
	}
	if err := w.checkName(name); err != nil {
		return err
	}
	w.changing.Lock()
	defer w.changing.Unlock()
	added := journal.TargetAdded{Target: name, Concurrency: concurrency, By: by}
	if _, err := w.append(journal.Draft{Payload: added}); err != nil {
		return err
	}
	w.change(func(b *board.Board) board.Effects {
		w.targets[name] = &target{Target: b.Add(name, concurrency)}
		w.namesDue = true
		return board.Effects{Poll: []string{name}}
	})
	w.declare()
	w.OnTargets()
	return nil
}

// keep takes back the retirement of a target that is under way. It is false where there is none.
// Nothing was journalled of it yet.
func (w *Worker) keep(name string) (kept bool) {
	w.changing.Lock()
	defer w.changing.Unlock()
	w.change(func(b *board.Board) (e board.Effects) {
		if t := b.Target(name); t != nil && t.RetiredBy() != "" {
			kept, e = true, b.Keep(t)
		}
		return e
	})
	return kept
}

// RemoveTarget makes the worker serve a target no more. Its queue must be empty.
func (w *Worker) RemoveTarget(name, by string) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	return w.remove(name, by)
}

// remove removes an empty target. Where that can't be journalled, the target stays as it was.
// Callers must hold w.changing.
func (w *Worker) remove(name, by string) error {
	var err error
	var wasOpen bool
	w.change(func(b *board.Board) board.Effects { // nothing more comes to it
		switch t := b.Target(name); {
		case t == nil:
			err = RefusedError("target '" + name + "' not found")
		case t.Length() > 0:
			err = RefusedError("queue is not empty")
		default:
			wasOpen = b.Close(t)
		}
		return board.Effects{}
	})
	if err != nil {
		return err
	}
	_, err = w.append(journal.Draft{Payload: journal.TargetRemoved{Target: name, By: by}})
	w.change(func(b *board.Board) board.Effects {
		if err != nil {
			return b.Reopen(b.Target(name), wasOpen)
		}
		b.Remove(name)
		delete(w.targets, name)
		w.namesDue = true // one that was unfit beside this one may be fit now
		return board.Effects{Wake: true}
	})
	if err == nil {
		w.declare()
		w.OnTargets()
	}
	return err
}

// retireTarget removes a target as soon as its queue is empty, and claims no more jobs for it until
// then.
func (w *Worker) retireTarget(name, by string) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	waits := false
	w.change(func(b *board.Board) (e board.Effects) {
		if t := b.Target(name); t != nil && t.Length() > 0 {
			waits, e = true, b.Retire(t, by)
		}
		return e
	})
	if waits {
		return nil
	}
	return w.remove(name, by)
}

// removeRetired removes a target that is to be removed when it is empty. Where the disk is full,
// that waits for room.
func (w *Worker) removeRetired(t *board.Target) {
	retry := w.Retry("remove target " + t.Name())
	for {
		err := w.removeEmpty(t)
		if !errors.Is(err, journal.ErrFull) || !w.pause(retry, err) {
			return
		}
	}
}

// removeEmpty removes a target if that is still wanted, and it is empty.
func (w *Worker) removeEmpty(t *board.Target) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	w.mu.Lock()
	by, now := w.board.Retired(t)
	w.mu.Unlock()
	if !now {
		return nil
	}
	return w.remove(t.Name(), by)
}

// SetConcurrency changes how many jobs of a target may run at once. What runs goes on.
func (w *Worker) SetConcurrency(name string, concurrency int, by string) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	switch {
	case concurrency < 1:
		return RefusedError("Invalid concurrency value.")
	case !w.serves(name):
		return RefusedError("target '" + name + "' not found")
	}
	set := journal.ConcurrencySet{Target: name, Concurrency: concurrency, By: by}
	if _, err := w.append(journal.Draft{Payload: set}); err != nil {
		return err
	}
	w.change(func(b *board.Board) board.Effects { return b.SetConcurrency(b.Target(name), concurrency) })
	w.declare()
	return nil
}

func (w *Worker) serves(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.targets[name]
	return ok
}

package exec

import "jobd/journal"

// Every change here is journalled before it takes effect, with who asked for it.

// Pause makes targets (none named: all) start nothing until they are continued. What runs goes on.
func (w *Worker) Pause(names []string, by string) error {
	return w.setPaused(names, true, func(names []string) journal.Payload {
		return journal.Paused{Targets: names, By: by}
	})
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
	if !paused {
		w.poll(targets)
		for _, t := range targets {
			w.dispatch(t)
		}
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
		all[i] = t.name
	}
	return all, nil
}

// AddTarget makes the worker serve one more target.
func (w *Worker) AddTarget(name string, concurrency int, by string) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	switch {
	case concurrency < 1:
		return RefusedError("Invalid concurrency value.")
	case w.serves(name):
		return RefusedError("target '" + name + "' already added")
	}
	added := journal.TargetAdded{Target: name, Concurrency: concurrency, By: by}
	if _, err := w.append(journal.Draft{Payload: added}); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &target{name: name, concurrency: concurrency}
	w.targets[name] = t
	w.poll([]*target{t})
	w.OnTargets()
	return nil
}

// RemoveTarget makes the worker serve a target no more. Its queue must be empty.
func (w *Worker) RemoveTarget(name, by string) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	if err := w.close(name); err != nil {
		return err
	}
	_, err := w.append(journal.Draft{Payload: journal.TargetRemoved{Target: name, By: by}})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.targets[name].retiring = false
		return err
	}
	delete(w.targets, name)
	w.OnTargets()
	return nil
}

// close makes sure that an empty target stays empty until it is removed.
func (w *Worker) close(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, ok := w.targets[name]
	switch {
	case !ok:
		return RefusedError("target '" + name + "' not found")
	case t.length() > 0:
		return RefusedError("queue is not empty")
	}
	t.retiring = true
	return nil
}

// RetireTarget removes a target as soon as its queue is empty, and claims no
// more jobs for it until then.
func (w *Worker) RetireTarget(name, by string) error {
	w.mu.Lock()
	t, ok := w.targets[name]
	if ok && t.length() > 0 {
		t.retiring, t.retiredBy = true, by
		w.mu.Unlock()
		return nil
	}
	w.mu.Unlock()
	return w.RemoveTarget(name, by)
}

// retire removes a target that has become empty, if that is waited for. The lock is held.
func (w *Worker) retire(t *target) {
	if by := t.retiredBy; by != "" && t.length() == 0 {
		t.retiredBy = ""
		go func() {
			if err := w.RemoveTarget(t.name, by); err != nil {
				w.Logger.Error("target could not be removed", "target", t.name, "error", err)
			}
		}()
	}
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
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.targets[name]
	t.concurrency = concurrency
	w.dispatch(t)
	return nil
}

func (w *Worker) serves(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.targets[name]
	return ok
}

// TargetStatus is what clients are told of a target.
type TargetStatus struct {
	Paused      bool `json:"paused"`
	Concurrency int  `json:"concurrency"`
	Length      int  `json:"length"` // jobs waiting and running
}

// Status is what clients are told of the worker.
type Status struct {
	Targets   map[string]TargetStatus
	Clients   int // manual jobs that a client waits for
	Strangers int // rows of our targets that are under way and belong to no worker
	Doubted   int // claims of which the table has not told yet whether they were won
}

// Status tells how the worker stands.
func (w *Worker) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{Targets: make(map[string]TargetStatus, len(w.targets)), Clients: len(w.waiters), Strangers: w.strangers, Doubted: len(w.doubtful)}
	for name, t := range w.targets {
		s.Targets[name] = TargetStatus{Paused: t.paused, Concurrency: t.concurrency, Length: t.length()}
	}
	return s
}

// TargetNames lists the names of the targets served, in order.
func (w *Worker) TargetNames() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.names()
}

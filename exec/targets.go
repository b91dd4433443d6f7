package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// SetTargets makes the targets what is wanted, concurrency by name, compared with what they are, also
// where somebody changed them meanwhile or is removing one. What can't be done is among the error's
// causes; the rest is done, and a second call does what is left.
func (w *Worker) SetTargets(wanted map[string]int, by string) error {
	w.mu.Lock()
	w.Targets = maps.Clone(wanted)
	w.mu.Unlock()
	var errs []error
	done := func(what, name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", what, name, err))
		}
	}
	for _, name := range w.TargetNames() {
		if _, stays := wanted[name]; !stays && !w.isFound(name) {
			done("remove target", name, w.remove(name, by, true))
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

// concurrency is the limit of a target; serves is false where it is not served.
func (w *Worker) concurrency(name string) (n int, serves bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t, there := w.targets[name]; there {
		return t.Concurrency(), true
	}
	return 0, false
}

// AddTarget makes the worker serve one more target. It refuses a
// name that the table does not take, where the table says so soon.
func (w *Worker) AddTarget(name string, concurrency int, by string) error {
	w.adding.Lock()
	defer w.adding.Unlock()
	if concurrency < 1 {
		return RefusedError("Invalid concurrency value.")
	}
	if w.Serves(name) {
		return RefusedError("target '" + name + "' already added")
	}
	if err := w.takesNames(w.TargetNames(), []string{name}); err != nil {
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

// FindTarget has the worker serve a target that no configuration names, until RemoveTarget: as AddTarget does, with
// a launcher of its own. One that is served already is left as it is.
func (w *Worker) FindTarget(name string, concurrency int, launcher Launcher, by string) error {
	w.change(func(b *board.Board) board.Effects {
		if _, served := w.targets[name]; served || w.Found[name] != nil {
			return board.Effects{}
		}
		if w.Found == nil {
			w.Found = map[string]*Launcher{}
		}
		w.Found[name] = &launcher
		return w.setTiming(b)
	})
	if w.Serves(name) {
		return nil
	}
	return w.AddTarget(name, concurrency, by)
}

// SetFound says which targets are found ones from now on, with their launchers: SetTargets, which comes next, leaves
// them as they are. All others are the configuration's.
func (w *Worker) SetFound(found map[string]*Launcher) {
	w.change(func(b *board.Board) board.Effects {
		w.Found = found
		return w.setTiming(b)
	})
}

func (w *Worker) isFound(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Found[name] != nil
}

// RemoveTarget makes the worker serve a target no more. Its queue must be empty.
func (w *Worker) RemoveTarget(name, by string) error { return w.remove(name, by, false) }

// remove makes the worker serve a target no more; one that is not empty only where it may be busy. What runs of
// it goes on then, and what has not started is given back.
func (w *Worker) remove(name, by string, busy bool) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	w.mu.Lock()
	t := w.board.Target(name)
	full := t != nil && t.Length() > 0
	w.mu.Unlock()
	switch {
	case t == nil:
		return RefusedError("target '" + name + "' not found")
	case full && !busy:
		return RefusedError("queue is not empty")
	}
	if _, err := w.append(journal.Draft{Payload: journal.TargetRemoved{Target: name, By: by}}); err != nil {
		return err
	}
	w.change(func(b *board.Board) board.Effects {
		e := b.Remove(t)
		delete(w.targets, name)
		maps.DeleteFunc(w.quarantined, func(_ int64, q *quarantined) bool { return q.Target == name })
		w.namesDue = true // one that was unfit beside this one may be fit now
		e.Wake = true
		return e
	})
	w.change(func(b *board.Board) (e board.Effects) {
		if w.Found[name] != nil {
			delete(w.Found, name)
			e = w.setTiming(b)
		}
		return e
	})
	w.declare()
	w.OnTargets()
	return nil
}

// SetConcurrency changes how many jobs of a target may run at once. What runs goes on.
func (w *Worker) SetConcurrency(name string, concurrency int, by string) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	switch {
	case concurrency < 1:
		return RefusedError("Invalid concurrency value.")
	case !w.Serves(name):
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

// Serves tells whether a target is served.
func (w *Worker) Serves(name string) bool {
	_, serves := w.concurrency(name)
	return serves
}

// target is a target of the board, with what claims for it have found. The worker's mutex guards
// it.
type target struct {
	*board.Target
	polls   int           // how often a poll was asked for
	polled  int           // the poll that was last answered by an exhausted table
	unfit   string        // why the table can't hold the name, or takes it for another one; "" where it does not
	look    board.Backoff // rows wait that somebody else's lock hid from a claim
	locked  locked
	trouble trouble // of its claims
	bucket  bucket  // the starts in hand, where the rate is limited
	next    int64   // when its next delayed row is due, by the server's clock, in seconds since 1970; 0: none is known
}

// trouble is what is wrong with the claims of one target.
type trouble struct {
	alone  bool          // its last claim failed: it is claimed for alone
	narrow int           // most rows of the next claim; 0: no limit of its own
	rest   board.Backoff // until when nothing is claimed for it
	why    string        // in words for the operator; "" where nothing is wrong
}

// How long a target rests after a claim of it that failed.
const (
	firstRest = 20 * time.Millisecond
	longRest  = 10 * time.Second
)

// wanted tells whether the table may hold jobs that were not claimed yet.
func (t *target) wanted() bool { return t.polls > t.polled }

// room is how many jobs to claim now.
func (t *target) room(prefetch int, now time.Time) int {
	if t.unfit != "" || !t.trouble.rest.Due.IsZero() || !t.wanted() {
		return 0
	}
	n := t.Room(prefetch)
	if t.trouble.narrow > 0 {
		n = min(n, t.trouble.narrow)
	}
	if n > 0 && t.bucket.limit != nil {
		n = min(n, t.bucket.room(t.Unstarted(), now))
	}
	return n
}

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

// asked tells of a job that it is of some targets (nil: all), and the runner is asked for its start.
func asked(targets []string) func(*board.Job) bool {
	return func(j *board.Job) bool {
		return (j.Phase() == board.Asking || j.Phase() == board.Asked) && (targets == nil || slices.Contains(targets, j.Target()))
	}
}

// awaitStarts waits until the runner has told of all starts that it was asked for, for targets that
// are paused by now: those that it has not read yet can't be taken back.
func (w *Worker) awaitStarts(names []string) error {
	w.mu.Lock()
	pending := w.board.Select(asked(names))
	w.mu.Unlock()
	w.withdraw(names)
	ctx, cancel := context.WithTimeout(context.Background(), w.startsTimeout)
	defer cancel()
	told := w.until(ctx, func(*board.Board) bool {
		pending = slices.DeleteFunc(pending, func(j *board.Job) bool { return !asked(nil)(j) })
		return len(pending) == 0
	})
	if !told {
		return RefusedError(fmt.Sprintf("paused, but %d jobs may still start: the runner was asked for them, and does not answer", len(pending)))
	}
	return nil
}

// withdraw takes back the starts of some targets (nil: all) that wait for a process still, which may
// have to be loaded first.
func (w *Worker) withdraw(targets []string) {
	w.mu.Lock()
	var unanswered []any
	for _, j := range w.board.Select(asked(targets)) {
		unanswered = append(unanswered, w.board.Unwanted(j))
	}
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
	w.mu.Lock()
	found, err := w.find(names)
	w.mu.Unlock()
	if err != nil {
		return err
	}
	names = make([]string, len(found))
	targets := make([]*board.Target, len(found)) // w.changing is held: all are served still
	for i, t := range found {
		names[i], targets[i] = t.Name(), t.Target
	}
	events, err := w.append(journal.Draft{Payload: event(names)})
	if err != nil {
		return err
	}
	w.change(func(b *board.Board) board.Effects {
		if paused {
			return b.Pause(targets, events[0].Time, by)
		}
		return b.Continue(targets)
	})
	if !paused {
		return w.Poll(names)
	}
	return nil
}

// Two names of targets may be one to the table's column, as its collation goes, and some names it
// can't hold at all. The table is asked at the start, when targets change, and after an outage.
// Nothing is claimed for a target whose name is unfit: its rows would go to another target, or its
// name fail the claims of all.

// How long a client that adds a target waits for the table's word on the name, and how long it
// takes until a question that failed is asked again.
const (
	nameTimeout = 2 * time.Second
	firstNames  = time.Second
	longNames   = 30 * time.Second
)

// checkNames asks the table whether it takes the names of the targets, where that may have changed.
func (w *Worker) checkNames(ctx context.Context) error {
	w.mu.Lock()
	wanted, names := w.namesDue && w.claims.names.Due.IsZero(), w.board.Names()
	if wanted {
		w.namesDue = false
	}
	w.mu.Unlock()
	if !wanted {
		return nil
	}
	unfit, err := w.Table.Names(ctx, names)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.namesDue = true
		if concernsAll(ctx, err) {
			return err
		}
		w.claims.names.Grow(time.Now(), firstNames, longNames)
		return nil
	}
	w.claims.names = board.Backoff{}
	for _, name := range names {
		if t, served := w.targets[name]; served {
			w.noteFit(t, unfit[name])
		}
	}
	return nil
}

// noteFit notes whether the table takes a target's name. Callers must hold w.mu.
func (w *Worker) noteFit(t *target, unfit string) {
	if unfit == t.unfit {
		return
	}
	t.unfit = unfit
	if unfit != "" {
		w.Logger.Error("nothing is claimed for a target: the table does not take its name", "target", t.Name(), "reason", unfit)
		return
	}
	w.poll(t.Name())
}

// CheckTargets tells which of these targets, each new to the worker, the table would not take when
// SetTargets is given them all: it asks, and changes nothing. Where the table does not answer soon,
// that is found out later. A target that is served already stays, whatever the table says of it.
func (w *Worker) CheckTargets(wanted map[string]int) error {
	var stay, added []string
	w.mu.Lock()
	for _, name := range w.board.Names() {
		if _, stays := wanted[name]; stays {
			stay = append(stay, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if _, served := w.targets[name]; !served {
			added = append(added, name)
		}
	}
	w.mu.Unlock()
	return w.takesNames(stay, added)
}

// takesNames tells which names the table does not take beside others, as far as it says so soon.
func (w *Worker) takesNames(stay, added []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), nameTimeout)
	defer cancel()
	unfit, err := w.Table.Names(ctx, append(stay, added...))
	if err != nil {
		return nil
	}
	var errs []error
	for _, name := range added {
		if why, is := unfit[name]; is {
			errs = append(errs, RefusedError(fmt.Sprintf("target '%s' can't be served: %s", name, why)))
		}
	}
	return errors.Join(errs...)
}

// Terms are what the configuration says of the jobs of one target, beside how many may run at once.
type Terms struct {
	// Attempts: starts of a run in all; 0: one, or, where jobs of unknown outcome are started again,
	// Config.MaxAttempts.
	Attempts  int
	Backoff   Backoff       // between them
	Timeout   time.Duration // of one start; 0: no limit
	KillAfter time.Duration // between SIGTERM and SIGKILL, when the timeout is over
	Rate      Rate          // of starts
	Launcher  *Launcher     // nil: the worker's
}

// Backoff is how long a failed run waits for its next attempt: First, then twice as long each time,
// Most at most, ± a fifth.
type Backoff struct{ First, Most time.Duration }

// Rate is how many starts there may be in a time; zero: as many as there can be.
type Rate struct {
	Starts int
	Per    time.Duration
}

// timing is what the board is told of the terms, and of the launchers of targets that were found.
func (c *Config) timing() board.Timing {
	t := board.Timing{
		Terms: make(map[string]board.Terms), Zone: c.Zone, SkipMissed: c.SkipMissed, Executor: c.Launcher.Mode.Executor(),
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(c.Terms)), slices.Collect(maps.Keys(c.Found))) {
		of := c.Terms[name]
		its := board.Terms{
			Attempts: of.Attempts, First: of.Backoff.First, Most: of.Backoff.Most, Timeout: of.Timeout, KillAfter: of.KillAfter,
		}
		if own := cmp.Or(of.Launcher, c.Found[name]); own != nil {
			its.Own, its.Executor = true, own.Mode.Executor()
		}
		t.Terms[name] = its
	}
	return t
}

// launcherOf is the launcher of a target's jobs. Callers must hold w.mu.
func (w *Worker) launcherOf(target string) Launcher {
	if own := cmp.Or(w.Terms[target].Launcher, w.Found[target]); own != nil {
		return *own
	}
	return w.Launcher
}

// SetTerms replaces the common launcher, the terms of all targets, the zone of schedules that name none,
// and what becomes of missed runs. They hold together from now on: for starts and ends, and for rows that
// are claimed, also of targets that are added later. So a configuration that is read again gives its terms
// first, and its targets then. The worker tries again to start what it could not. It replaces pool
// processes also where nothing has changed in the configuration: they may have loaded an older version of
// the application.
func (w *Worker) SetTerms(common Launcher, terms map[string]Terms, zone *time.Location, skipMissed bool) {
	w.change(func(b *board.Board) board.Effects {
		w.Launcher, w.Terms, w.Zone, w.SkipMissed = common, terms, zone, skipMissed
		return w.setTiming(b)
	})
	w.declare()
	w.recycle(w.pooledTargets(), "reload")
}

// setTiming tells the board what the configuration says by now. Callers must hold w.mu.
func (w *Worker) setTiming(b *board.Board) board.Effects {
	e := b.SetTiming(w.timing())
	e.Wake = true // a rate may let more start
	return e
}

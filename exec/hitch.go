package exec

import (
	"fmt"
	"time"
)

// hitch is why no job can be started: the system refuses to execute the launcher, or is short of what a process takes.
// Such a start never happened, so it is no outcome: the job is given back, as is all that has not started, nothing is
// claimed, and clients are told the reason. A second attempt is not given back, because the journal says that its job ran:
// it waits in its queue, and keeps its number.
//
// The launcher is looked at again, after 1 s at first and 30 s at most, and when somebody polls, continues, or has the
// configuration read again. Where looking showed what was wrong, and shows that it is right, jobs are started again. What
// only a start can tell, one job tells: the probe. It is the only one that is claimed, and when it runs all others are.
type hitch struct {
	why     string
	short   bool // see NotStartedError
	since   time.Time
	seen    bool      // looking shows it
	looking bool      // at this moment
	looked  time.Time // when last
	ready   bool      // the next job to be started is the probe
	probe   *job      // is about to be started, to see
}

// Hitch is what clients are told of that.
type Hitch struct {
	Broken string    `json:"broken"`
	Since  time.Time `json:"since"`
}

const (
	firstHitch   = time.Second
	longHitch    = 30 * time.Second
	calm         = time.Minute // after which the next hitch has nothing to do with the one before
	mostRefusals = 3           // starts of one job, for want of something, before that is a hitch
)

// text says so in words, for operators, clients and the journal.
func (h *hitch) text() string {
	if h.short {
		return "no job can be started for now: " + h.why
	}
	return "the launcher can't be executed: " + h.why
}

// hitchStatus is what clients are told. The lock is held.
func (w *Worker) hitchStatus() *Hitch {
	if w.hitch == nil {
		return nil
	}
	return &Hitch{Broken: w.hitch.text(), Since: w.hitch.since}
}

// mayStart tells whether a job may have a slot. The lock is held.
func (w *Worker) mayStart() bool { return w.hitch == nil || w.hitch.ready && w.hitch.probe == nil }

// hitched tells whether a job is not to be started now that it has a slot, or had one. The lock is held.
func (w *Worker) hitched(j *job) bool { return w.hitch != nil && w.hitch.probe != j }

// notStarted takes back a job whose start the system has refused. What may be over in a moment is tried again first, and so
// is what another launcher than the one that is there now was refused. The lock is held.
func (w *Worker) notStarted(j *job, refusal *NotStartedError) {
	j.process, j.over = nil, false
	old := j.launcher != w.launchers
	if old || refusal.Short && w.hitch == nil && j.refusals < mostRefusals {
		if !old {
			j.refusals++
		}
		w.announceAgain(j, refusal)
		return
	}
	w.hitchOn(j, refusal)
	w.takeBack(j)
}

// hitchOn notes that nothing can be started, as a job has shown. The lock is held.
func (w *Worker) hitchOn(j *job, refusal *NotStartedError) {
	now := time.Now()
	first := w.hitch == nil
	if first {
		if now.Sub(w.unhitched) > calm {
			w.hitchRest = backoff{}
		}
		w.hitch = &hitch{since: now}
	}
	h := w.hitch
	if !first && h.probe != j {
		return // it was asked for at the same time as the one that showed it
	}
	h.why, h.short, h.seen, h.probe, h.ready = refusal.Why, refusal.Short, false, nil, false
	w.hitchRest.grow(firstHitch, longHitch)
	if first {
		w.Logger.Error("no job can be started; nothing is claimed until one can, and what was claimed is given back",
			"job", j.id, "target", j.target.name, "reason", h.text())
		for _, t := range w.targets {
			w.takeBackAll(t)
		}
	}
	go w.examine(false)
	w.wake()
}

// unhitch has jobs started again. The lock is held.
func (w *Worker) unhitch() {
	w.Logger.Info("jobs can be started again", "after", time.Since(w.hitch.since).Round(time.Millisecond), "reason", w.hitch.text())
	w.hitch, w.unhitched, w.hitchRest.due = nil, time.Now(), time.Time{}
	w.startWaiting()
}

// startWaiting starts what waits, and looks for more. The lock is held.
func (w *Worker) startWaiting() {
	for _, t := range w.targets {
		w.poll([]*target{t})
		w.dispatch(t)
	}
}

// examine looks at the launcher. Where there is nothing wrong to be seen, and goOn, either that was it, or a job is to tell.
func (w *Worker) examine(goOn bool) {
	w.mu.Lock()
	h, launcher, number := w.hitch, w.launcher, w.launchers
	if h == nil || h.looking {
		w.mu.Unlock()
		return
	}
	h.looking = true
	w.mu.Unlock()
	err := launcher.Check() // of a file system that hangs it waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.looking, h.looked = false, time.Now(); w.hitch != h || h.probe != nil {
		return
	}
	switch {
	case number != w.launchers:
		go w.examine(goOn)
	case err != nil:
		h.failed(err)
		if w.hitchRest.due.IsZero() {
			w.hitchRest.grow(firstHitch, longHitch)
		}
	case goOn:
		w.goOn()
	}
	w.wake()
}

// failed notes what looking shows.
func (h *hitch) failed(err error) { h.why, h.short, h.seen, h.ready = err.Error(), false, true, false }

// goOn ends the hitch where looking showed it and does not any more; else the next job is to tell. The lock is held.
func (w *Worker) goOn() {
	if w.hitch.seen {
		w.unhitch()
		return
	}
	w.hitch.ready = true
	w.startWaiting()
}

// lookSoon has the launcher looked at, unless that was done a moment ago. The lock is held.
func (w *Worker) lookSoon() {
	if h := w.hitch; h != nil && time.Since(h.looked) > firstHitch {
		go w.examine(true)
	}
}

// whyNoStart looks at the launcher for a client, and says why its jobs can't be run; "" where they are to be tried.
func (w *Worker) whyNoStart() string {
	w.mu.Lock()
	h, launcher := w.hitch, w.launcher
	w.mu.Unlock()
	if h == nil {
		return ""
	}
	err := launcher.Check()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.hitch != h:
		return ""
	case h.probe != nil:
		return h.text()
	case err != nil:
		h.failed(err)
		return h.text()
	}
	w.goOn()
	return ""
}

// probeWith makes a job that has got a slot the probe, where one is wanted. The lock is held.
func (w *Worker) probeWith(j *job) {
	if h := w.hitch; h != nil && w.mayStart() {
		h.probe, h.ready = j, false
	}
}

// proves notes that a job runs, or ran. The lock is held.
func (w *Worker) proves(j *job) {
	if h := w.hitch; h != nil && h.probe == j && j.launcher == w.launchers {
		w.unhitch()
	}
}

// probedInVain has another job tell, where one that has lost its slot did not. The lock is held.
func (w *Worker) probedInVain(j *job) {
	if h := w.hitch; h != nil && h.probe == j {
		h.probe, h.ready = nil, true
		w.wake()
	}
}

// probeRoom has one row claimed, of a target that could start it at once, where a job is to tell whether any can be started;
// and none where it does so, or it is too early.
func (w *Worker) probeRoom(room map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hitch == nil {
		return
	}
	probe := ""
	for name := range room {
		if t := w.targets[name]; t != nil && w.mayStart() && len(t.queue) == 0 && t.active < t.concurrency {
			probe = name
		}
	}
	clear(room)
	if probe != "" {
		room[probe] = 1
	}
}

// excuse tells the client of a second attempt, which stays, why its job is not started for now. The lock is held.
func (w *Worker) excuse(j *job) {
	if j.waiter != nil && w.hitched(j) {
		j.waiter.tell(nil, fmt.Sprintf("job %d waits for its attempt %d: %s; its row will tell how it ended", j.id, j.attempt, w.hitch.text()))
	}
}

package exec

import (
	"errors"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// launch starts jobs whose announcements are journalled, as soon as their rows say so. A row that
// can't be updated for now holds up its own job only.
func (w *Worker) launch(group []board.Start) {
	if !w.wait(w.Mirror.Tried(group[len(group)-1].Seq), nil) {
		return
	}
	for _, s := range group {
		if w.offline() || IsClosed(w.Mirror.Shown(s.Seq, s.ID())) {
			w.startOurs(s)
		} else {
			w.starts.Go(func() { w.launchLate(s) })
		}
	}
}

// giveUpAfter is how long an announced job whose row does not show it keeps its slot.
const giveUpAfter = 300 * time.Millisecond

// notShown is why a job is given back whose row is quarantined.
const notShown = "its row can't be updated: somebody has locked it, or a rule of the table refuses it"

// launchLate starts a job whose row is quarantined for now: somebody has locked it just then, or a
// rule of the table refuses it. Where that lasts, the job is given back, as by a pause, and claims leave its
// row out for a while. A job that ran before can't be given back, and waits for its row.
func (w *Worker) launchLate(s board.Start) {
	shown := w.Mirror.Shown(s.Seq, s.ID())
	grace := time.NewTimer(giveUpAfter)
	defer grace.Stop()
	if !w.wait(shown, grace.C) {
		given := false
		w.change(func(b *board.Board) (e board.Effects) {
			if given, e = b.GiveUp(s, notShown); given {
				w.quarantine(s.ID(), s.Target(), notShown)
			}
			return e
		})
		if given || !w.wait(shown, nil) {
			return
		}
	}
	w.startOurs(s)
}

// wait waits until the mirror has closed a channel. It is false when the worker stops, or limit receives,
// before. While the database is away it may be true at once, if so configured.
func (w *Worker) wait(mirrored <-chan struct{}, limit <-chan time.Time) bool {
	var away <-chan struct{}
	if w.LaunchOffline {
		away = w.Mirror.Away()
	}
	select {
	case <-mirrored:
		return true
	case <-away:
		return true
	case <-limit:
	case <-w.active.Done():
	}
	return false
}

// offline tells whether jobs are started on the journal alone at this moment.
func (w *Worker) offline() bool { return w.LaunchOffline && IsClosed(w.Mirror.Away()) }

// startOurs starts a job that the journal sees as about to be started under our claim, or drops it where
// its row is somebody else's by now.
func (w *Worker) startOurs(s board.Start) {
	var known journal.Job
	w.Recorder.View(func(state *journal.State) { known = state.Job(s.ID()) })
	if known.Status == journal.StatusStarting && known.Token == s.Token() {
		w.start(s)
	} else {
		w.change(func(b *board.Board) board.Effects { return b.Taken(s) })
		w.lookAgain()
	}
}

// start asks for the start of a job's process, unless its target was paused meanwhile, or the
// worker stops. Every start goes through here.
func (w *Worker) start(s board.Start) {
	var launcher Launcher
	var env []string
	var wanted bool
	var spent string
	w.change(func(b *board.Board) (e board.Effects) {
		launcher, env = w.launcherOf(s.Target()), w.environment(b, s, time.Now())
		if wanted, e = b.Ask(s); wanted {
			delete(w.quarantined, s.ID())
			if spent = b.Spent(s.Job); spent == "" {
				if t, served := w.targets[s.Target()]; served {
					t.bucket.take(time.Now())
				}
			}
		}
		return e
	})
	if !wanted {
		return
	}
	process, err := Process(nil), errors.New(spent)
	if spent == "" {
		process, err = w.startWith(launcher, s, env)
	}
	var unwanted bool
	w.change(func(b *board.Board) board.Effects {
		switch {
		case errors.Is(err, ErrRunnerChanged):
			return b.Replaced(s.Job, err)
		case err != nil:
			b.Asked(s.Job, nil)
			return b.Ended(s.Job, journal.Started{}, outcomeOf(journal.Done{}, err))
		}
		unwanted = b.Asked(s.Job, process)
		return look(b, s.Job)
	})
	if unwanted {
		takeBack(process)
	}
}

// hear takes in what has become of a start.
func (w *Worker) hear(n News) {
	w.change(func(b *board.Board) board.Effects {
		if j := b.Job(n.Job); j != nil && j.Token() == n.Token && j.Attempt() == n.Attempt {
			return look(b, j)
		}
		return board.Effects{}
	})
}

// look tells the board what has become of a job's process. It may be called early, before the
// process is noted, and more often than needed.
func look(b *board.Board, j *board.Job) board.Effects {
	process, noted := j.Process().(Process)
	switch {
	case !noted:
		return board.Effects{}
	case IsClosed(process.Ended()):
		return b.Ended(j, process.Started(), outcomeOf(process.Outcome()))
	case IsClosed(process.Begun()):
		return b.Began(j, process.Started(), time.Now())
	}
	return board.Effects{}
}

// outcomeOf is how a start ended, as the board is told.
func outcomeOf(done journal.Done, err error) board.Outcome {
	o := board.Outcome{Done: done, Cause: err}
	var refusal *NotStartedError
	switch {
	case err == nil:
	case errors.As(err, &refusal):
		o.Fate, o.Cause, o.Short = board.NotStarted, refusal, refusal.Short
	case errors.Is(err, ErrRunnerChanged):
		o.Fate = board.NotAsked
	case errors.Is(err, ErrOutcomeUnknown):
		o.Fate = board.Unknown
	default:
		o.Fate = board.Impossible
	}
	return o
}

// announceAgain waits a moment, then has a job announced anew. The job's last start did not happen.
func (w *Worker) announceAgain(r board.Renewal) {
	if r.After > 0 && w.rest(r.After) || r.After == 0 && r.Job.Retry.(Retry).Wait(w.active, r.Cause) == nil {
		w.change(func(b *board.Board) board.Effects { return b.Renew(r.Job) })
	}
}

// IsClosed tells whether a channel that carries nothing is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// takeBack takes back the start of a process if it waits still.
func takeBack(process any) {
	if waiting, is := process.(withdrawable); is {
		waiting.Withdraw()
	}
}

// runnerName names the runner that is there. Where that has taken the place of one that did not end in
// order, this is journalled before anything is asked of it.
func (w *Worker) runnerName() (string, error) {
	w.meeting.Lock()
	defer w.meeting.Unlock()
	name, err := w.Keeper.Instance()
	before := w.met
	if err != nil || name == before {
		return name, err
	}
	if before != "" && !w.Keeper.Ended(before) {
		w.Logger.Warn("the runner before did not end in order, as if killed; another one has its place", "runner", name, "before", before)
		if _, err := w.append(journal.Draft{Payload: journal.Runner{Instance: name, Before: before}}); err != nil {
			return "", err
		}
	}
	w.met = name
	return name, nil
}

// instance names the runner that starts jobs; "" where no runner can be had at the moment. Then a
// later turn tries again.
func (w *Worker) instance() string {
	if w.runnerAway.Load() {
		return ""
	}
	name, err := w.runnerName()
	if w.runnerRetry == nil {
		w.runnerRetry = w.Retry("start the runner")
	}
	if err == nil {
		w.runnerRetry.Over()
		return name
	}
	w.runnerAway.Store(true)
	w.others.Go(func() {
		if w.runnerRetry.Wait(w.active, err) == nil {
			w.runnerAway.Store(false)
			w.nudgeTurn()
		}
	})
	return ""
}

// Result is how a job ended, as clients are told.
type Result struct {
	Result string  `json:"result"`
	Code   *int    `json:"code"`
	Signal *string `json:"signal"`
	Stdout string  `json:"stdout"`
	Stderr string  `json:"stderr"`
}

// resultOf is what a client is told of an outcome.
func resultOf(done journal.Done) Result {
	r := Result{
		Result: done.Result, Code: done.Code,
		Stdout: done.Stdout.Text(0, journal.CharsetFull), Stderr: done.ShownStderr().Text(0, journal.CharsetFull),
	}
	if done.Signal != "" {
		r.Signal = &done.Signal
	}
	return r
}

// answerDelay is how long an answer waits for the table to show the outcome.
const answerDelay = time.Second

// answer tells a client how its job ended.
func (w *Worker) answer(client *waiter, end journal.Event) {
	timer := time.NewTimer(answerDelay)
	defer timer.Stop()
	select {
	case <-w.Mirror.Shown(end.Seq, end.Job):
	case <-timer.C:
	}
	done, _ := end.Payload.(journal.Done)
	result := resultOf(done)
	client.tell(&result, "")
}

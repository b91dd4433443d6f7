package exec

import (
	"context"
	"errors"
	"time"

	"jobd/journal"
)

// One goroutine journals what happens to the jobs that have a slot. Whatever has come together since its last turn goes
// into one append: ends, the announcements of the jobs that follow in the slots, processes that are known
// by now, signals. So each turn costs one fsync, one transaction of the mirror and one message to
// the runner, however many jobs take part in it; under load turns get larger, not more.

// inbox is what has happened since the last turn. The worker's mutex guards it.
type inbox struct {
	due     []*job        // have got a slot, and are to be announced
	begun   []*job        // are known to run
	ended   []*job        // have ended
	signals []*signalling // are to be signalled
	off     []*job        // were announced, and are not to be started any more
}

// step is what a turn journals of one job.
type step struct {
	job    *job
	done   *journal.Done // the job's end
	signal *signalling
	start  bool // the job is announced
	tells  bool // the job's process is among what is journalled
	drafts []journal.Draft
	events []journal.Event
	err    error // why nothing of it was journalled
}

// turnLoop takes turns until ctx ends, or the journal fails.
func (w *Worker) turnLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.failed:
			return
		case <-w.turns:
			w.collect()
			w.turn()
		}
	}
}

// A turn that follows a busy one waits for more to come together, for collectTime at most: until half of the
// jobs that have a slot have ended, or collectEnough of them. The others run meanwhile, and what is
// spent on a turn is shared by more. After a turn that was about one job nothing waits.
const (
	collectTime   = 3 * time.Millisecond
	collectEnough = 16
)

// collect waits until enough has come together for a turn.
func (w *Worker) collect() {
	if time.Since(w.busy) > collectTime {
		return
	}
	timer := time.NewTimer(collectTime)
	defer timer.Stop()
	for !w.enough() {
		select {
		case <-w.turns:
		case <-timer.C:
			return
		}
	}
}

func (w *Worker) enough() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	active := 0
	for _, t := range w.targets {
		active += t.active
	}
	return len(w.inbox.ended) >= min((active+1)/2, collectEnough)
}

// nudgeTurn makes the loop take a turn.
func (w *Worker) nudgeTurn() {
	select {
	case w.turns <- struct{}{}:
	default:
	}
}

// turn takes all jobs that something has happened to one step further.
func (w *Worker) turn() {
	steps := w.gather(w.instance())
	w.callOff(w.takeOff())
	if len(steps) == 0 {
		return
	}
	w.journalSteps(steps)
	if ends(steps) > 1 {
		w.busy = time.Now()
	}
	announced := w.settle(steps)
	if len(announced) > 0 {
		go w.launch(announced)
	}
}

// ends counts the jobs that have ended.
func ends(steps []*step) (n int) {
	for _, s := range steps {
		if s.done != nil {
			n++
		}
	}
	return n
}

// instance names the runner that is to start jobs; "" where it can't be had at the moment. Then there will be a
// turn when it is to be tried again.
func (w *Worker) instance() string {
	if w.runnerPause != nil {
		select {
		case <-w.runnerPause:
			w.runnerPause = nil
		default:
			return ""
		}
	}
	name, err := w.Keeper.Instance()
	if err == nil {
		w.runnerRetry = nil
		return name
	}
	if w.runnerRetry == nil {
		w.runnerRetry = w.Retry("start the runner")
	}
	pause := make(chan struct{})
	w.runnerPause = pause
	go func() {
		if w.pause(w.runnerRetry, err) {
			close(pause)
			w.nudgeTurn()
		}
	}()
	return ""
}

// pause waits before something is tried again. It is false when the worker stops.
func (w *Worker) pause(retry Retry, cause error) bool {
	ctx, cancel := w.until(w.stop)
	defer cancel()
	return retry.Wait(ctx, cause) == nil
}

// gather empties the inbox. Jobs that have ended give their slots to the next ones, which
// are announced in the same turn.
func (w *Worker) gather(instance string) (steps []*step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.inbox.ended {
		if done := w.outcome(j); done != nil {
			steps = append(steps, j.step(journal.Draft{Job: j.id, Payload: *done}))
			steps[len(steps)-1].done = done
		}
	}
	for _, j := range w.inbox.begun {
		if !j.told && !j.freed {
			steps = append(steps, j.step())
		}
	}
	for _, s := range w.inbox.signals {
		if s.job.freed {
			s.journalled <- errGone
			continue
		}
		steps = append(steps, s.job.step(s.draft))
		steps[len(steps)-1].signal = s
	}
	w.inbox = inbox{due: w.inbox.due, off: w.inbox.off}
	if instance != "" {
		steps = append(steps, w.announcements(instance)...)
	}
	return steps
}

// takeOff takes the jobs that are not to be started any more, as far as they are ours still.
func (w *Worker) takeOff() []*job {
	w.mu.Lock()
	off := w.inbox.off
	w.inbox.off = nil
	w.mu.Unlock()
	if len(off) == 0 {
		return nil
	}
	return w.stillOurs(off)
}

// announcements says of all jobs that have a slot that they are about to be started. The lock is held.
func (w *Worker) announcements(instance string) (steps []*step) {
	for _, j := range w.inbox.due {
		steps = append(steps, &step{job: j, start: true, drafts: []journal.Draft{j.running(instance, false)}})
	}
	w.inbox.due = nil
	if len(steps) > 0 {
		w.beginning.Add(1)
	}
	return steps
}

// outcome is how a job ended; nil where that is not its end. The lock is held.
func (w *Worker) outcome(j *job) *journal.Done {
	done, err := j.process.Outcome()
	switch {
	case err == nil:
	case errors.Is(err, ErrRunnerChanged):
		w.announceAgain(j, err)
		return nil
	case errors.Is(err, ErrOutcomeUnknown) && w.again(j.attempt):
		w.startAgain(j, err)
		return nil
	case errors.Is(err, ErrOutcomeUnknown):
		elapsed := done.Elapsed
		done = w.unknownOutcome(j.attempt, err.Error())
		done.Elapsed = elapsed
	default:
		done = failure(err.Error())
	}
	w.free(j)
	w.dispatch(j.target)
	return &done
}

// startAgain queues a job whose outcome nobody knows for its next attempt. The lock is held.
func (w *Worker) startAgain(j *job, cause error) {
	w.Logger.Warn("outcome of a job is unknown; it is started again", "job", j.id, "attempt", j.attempt+1, "reason", cause)
	w.free(j)
	w.running.Done()
	w.put(&job{id: j.id, target: j.target, attempt: j.attempt + 1, waiter: j.waiter})
}

// again tells whether a job of unknown outcome may be started once more.
func (w *Worker) again(attempt int) bool { return w.Requeue && attempt < w.MaxAttempts }

// journalSteps appends the steps of a turn. Where one of them contradicts the journal, because its row was
// changed by somebody else, the others are not held up.
func (w *Worker) journalSteps(steps []*step) {
	var drafts []journal.Draft
	for _, s := range steps {
		drafts = append(drafts, s.drafts...)
	}
	events, err := w.record(drafts...)
	var illegal *journal.IllegalError
	if errors.As(err, &illegal) && len(steps) > 1 {
		for _, s := range steps {
			s.events, s.err = w.record(s.drafts...)
		}
		return
	}
	for _, s := range steps {
		if s.err = err; err == nil {
			s.events, events = events[:len(s.drafts)], events[len(s.drafts):]
		}
	}
}

// settle does what is to follow what was journalled, and gives the jobs that are to be started.
func (w *Worker) settle(steps []*step) (announced []*job) {
	for _, s := range steps {
		if s.done != nil && s.err == nil {
			w.Keeper.Forget(s.job.id, s.job.attempt)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	starts := false
	for _, s := range steps {
		starts = starts || s.start
		switch {
		case s.signal != nil:
			s.signal.journalled <- s.err
		case s.err != nil:
			w.notJournalled(s)
		case s.done != nil:
			w.finish(s)
		case s.start:
			s.job.announced = s.events[0].Seq
			announced = append(announced, s.job)
		}
		if s.tells && s.err != nil {
			s.job.told = false
		}
	}
	if starts && len(announced) == 0 {
		w.beginning.Done()
	}
	return announced
}

// notJournalled gives up what could not be journalled. The lock is held.
func (w *Worker) notJournalled(s *step) {
	switch {
	case s.done != nil:
		w.Logger.Error("outcome of a job could not be journalled", "job", s.job.id, "error", s.err)
	case s.start && w.failure == nil:
		w.Logger.Warn("job is not started: its row was changed by somebody else", "job", s.job.id, "target", s.job.target.name)
	case !s.start:
		w.Logger.Error("job runs, but its process could not be journalled", "job", s.job.id, "error", s.err)
		return
	}
	why := "the job's row was changed by somebody else"
	if w.failure != nil {
		why = "the journal failed"
	}
	w.drop(s.job, why)
}

// finish takes a job whose end is journalled out of the worker, and tells who waits for it. The lock is held.
func (w *Worker) finish(s *step) {
	if s.job.waiter != nil {
		w.running.Add(1)
		go w.answer(s.job.waiter, s.events[len(s.events)-1].Seq, *s.done)
	}
	w.leave(s.job)
}

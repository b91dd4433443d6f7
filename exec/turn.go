package exec

import (
	"context"
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
	off     []*job        // are to be given back
}

// turnLoop takes turns until ctx ends, with a last one then, or the journal fails.
func (w *Worker) turnLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			w.turn()
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
	if len(steps) == 0 {
		return
	}
	w.journalSteps(steps)
	if ends(steps) > 1 {
		w.busy = time.Now()
	}
	if group := w.settle(steps); len(group) > 0 {
		go w.launch(group)
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

// gather empties the inbox. Jobs that have ended give their slots to the next ones, which
// are announced in the same turn.
func (w *Worker) gather(instance string) (steps []*step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.inbox.ended {
		done, again := w.outcome(j)
		if done != nil {
			steps = append(steps, j.step(journal.Draft{Job: j.id, Payload: *done}))
			steps[len(steps)-1].done = done
		}
		if again != nil { // its next start is announced behind this, in this turn or a later one
			steps = append(steps, j.step(journal.Draft{Job: j.id, Payload: *again}))
			steps[len(steps)-1].again = true
		}
	}
	for _, j := range w.inbox.begun {
		if !j.told && !j.freed && j.process != nil {
			w.proves(j)
			steps = append(steps, j.step())
		}
	}
	for _, s := range w.inbox.signals {
		if s.job.freed || s.job.process == nil {
			s.journalled <- errGone
			continue
		}
		steps = append(steps, s.job.step(s.draft))
		steps[len(steps)-1].signal = s
	}
	for _, j := range w.inbox.off {
		steps = append(steps, &step{job: j, off: true, drafts: []journal.Draft{released(j.id, j.claim, j.reason)}})
	}
	w.inbox = inbox{due: w.inbox.due}
	if instance != "" {
		steps = append(steps, w.announcements(instance)...)
	}
	return steps
}

// announcements says of all jobs that have a slot that they are about to be started. The lock is held.
func (w *Worker) announcements(instance string) (steps []*step) {
	for _, j := range w.inbox.due {
		j.move(announcing)
		steps = append(steps, &step{job: j, start: true, drafts: []journal.Draft{j.running(instance, false)}})
	}
	w.inbox.due = nil
	if len(steps) > 0 {
		w.beginning.add()
	}
	return steps
}

package exec

import (
	"context"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// One goroutine journals what happens to the jobs that have a slot. Whatever has come together
// since its last turn goes into one append: ends, the announcements of the jobs that follow in the
// slots, processes that are known by now, signals. So each turn costs one fsync, one transaction of
// the mirror and one message to the runner, however many jobs take part in it; under load turns get
// larger, not more.

// turnLoop takes turns until ctx ends, with a last one then, or the journal fails.
func (w *Worker) turnLoop(ctx context.Context) {
	defer close(w.turned)
	for {
		select {
		case <-ctx.Done():
			w.turn()
			return
		case <-w.whole.Done():
			return
		case <-w.turnKnock:
			w.comeRound(w.TurnPulse)
		case <-w.turns:
			w.collect()
			w.turn()
		}
	}
}

// A turn that follows a busy one waits for more to come together, for collectTime at most: until
// half of the jobs that have a slot have ended, or collectEnough of them. The others run meanwhile,
// and what is spent on a turn is shared by more. After a turn that was about one job nothing waits.
//
// Where processes wait for a processor, a turn waits on as long as they do: the processors have
// enough to do without it, and each turn would take some of their time. That goes on until half of
// the jobs of one target that have a slot have ended, and for a quarter of the time that jobs ran of
// late, and mostCollect, at most: the slots may be what jobs wait for, and the processors busy with
// something else.
const (
	collectTime   = 3 * time.Millisecond
	collectEnough = 16
	mostCollect   = 15 * time.Millisecond
)

// collect waits until enough has come together for a turn.
func (w *Worker) collect() {
	begun, longest := time.Now(), min(w.usual/4, mostCollect)
	follows := begun.Sub(w.busy) <= collectTime
	if !follows && (longest < collectTime || !w.isCrowded()) {
		return
	}
	timer := time.NewTimer(collectTime)
	defer timer.Stop()
	for !w.enough(follows) {
		select {
		case <-w.turns:
		case <-timer.C:
			follows = false
			if time.Since(begun) >= longest || !w.isCrowded() {
				return
			}
			timer.Reset(collectTime)
		}
	}
}

// isCrowded tells whether processes wait for a processor.
func (w *Worker) isCrowded() bool { return w.Waiting != nil && w.Waiting() > 0 }

// enough tells whether a turn is to wait for nothing more. One that follows a busy one looks at all
// targets together.
func (w *Worker) enough(follows bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.board.Crowded(collectEnough) || !follows && w.board.Thinned()
}

// learn notes how long the jobs ran that have ended in a turn.
func (w *Worker) learn(turn board.Turn) {
	if turn.Ends > 0 {
		w.usual += (turn.Ran/time.Duration(turn.Ends) - w.usual) / 4
	}
}

// nudgeTurn makes the loop take a turn.
func (w *Worker) nudgeTurn() {
	select {
	case w.turns <- struct{}{}:
	default:
	}
}

// turn takes all jobs that something has happened to one step further: what has happened is
// journalled, then memory changes, then effects follow.
func (w *Worker) turn() {
	var turn board.Turn
	instance := w.instance()
	w.takeTurn(func(b *board.Board) (e board.Effects) {
		now := time.Now()
		b.SetAhead(w.clock.ahead(now))
		turn, e = b.Turn(now, instance)
		return e
	})
	if len(turn.Steps) == 0 {
		return
	}
	w.journalSteps(turn.Steps)
	w.observe(turn.Steps)
	w.learn(turn)
	if turn.Ends > 1 {
		w.busy = time.Now()
	}
	w.takeTurn(func(b *board.Board) board.Effects { return b.Journalled(turn) })
}

// takeTurn is change for the turn loop.
func (w *Worker) takeTurn(event func(*board.Board) board.Effects) {
	var e board.Effects
	works(w.TurnPulse, func() { e = w.settle(event) })
	w.carryOut(e)
}

// journalSteps appends the steps of a turn. Where one of them contradicts the journal, because its
// row was changed by somebody else, the others are not held up.
func (w *Worker) journalSteps(steps []*board.Step) {
	var drafts []journal.Draft
	for _, s := range steps {
		drafts = append(drafts, s.Drafts...)
	}
	events, err := w.record(drafts...)
	if illegal(err) != nil && len(steps) > 1 {
		for _, s := range steps {
			s.Events, s.Err = w.record(s.Drafts...)
		}
		return
	}
	for _, s := range steps {
		if s.Err = err; err == nil {
			s.Events, events = events[:len(s.Drafts)], events[len(s.Drafts):]
		}
	}
}

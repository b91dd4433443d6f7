package board

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"jobd/journal"
)

// What the model has found once: the shortest order of events in which it did. What an order leaves
// open is drawn, and must not matter.

// replay runs an order of events in a world with some rows, and lets it come to its end.
func replay(t *testing.T, rows []journal.Row, order func(w *world)) {
	t.Helper()
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.config.Requeue, w.config.Timing.Terms = false, map[string]Terms{}
		w.b = New(w.config)
		for _, row := range rows {
			w.put(row)
		}
		order(w)
		w.quiesce()
	})
}

func waiting(id int64, target string, mostAttempts int64) journal.Row {
	return journal.Row{Job: id, Target: target, Status: journal.RowWaiting, Plan: &journal.Plan{MaxAttempts: mostAttempts}}
}

var won = rapid.Just("won")

// Nobody changes a row between a claim's decision and its COMMIT. A model that lets somebody do so
// has a row that should start once come back after its first start, as the claim had read it.
func TestFoundARowThatWasResetUnderAClaim(t *testing.T) {
	replay(t, []journal.Row{waiting(1, "b", 2), waiting(2, "a", 0)}, func(w *world) {
		w.beginClaim(rapid.Just(true))
		if w.reset(1) {
			w.put(waiting(1, "a", 0))
		}
		w.endClaim(won)
		w.startOne()
		w.answerOne(rapid.Just(2))
		w.beginTurn()
		w.now = w.now.Add(time.Minute) // until the next start is due
	})
}

// A target that is removed while claims of a former run are in doubt, and added again while a job of
// that run holds a slot, has one less for others.
func TestFoundATargetThatWasAddedWhileAFormerJobHeldASlot(t *testing.T) {
	replay(t, []journal.Row{waiting(1, "b", 0), waiting(2, "b", 0), waiting(3, "b", 0)}, func(w *world) {
		w.beginClaim(rapid.Just(true))
		w.endClaim(won)
		w.crash(false)
		w.retire("b") // which is empty
		w.put(waiting(2, "b", 0))
		w.judge()
		w.retire("b") // will be served again
		w.check()
		w.setConcurrency("b", 2)
		w.beginClaim(rapid.Just(true))
		w.check()
		w.setConcurrency("b", 1)
		w.check()
		w.beginTurn()
		w.check()
	})
}

package exec

import (
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// Replan says what follows the end of a run whose row has another schedule by now than its claim had,
// as found tells: it is planned anew from there. The mirror asks it, and journals what it says before
// the row is updated.
func (w *Worker) Replan(done journal.Done, claim journal.Accepted, found journal.Plan) journal.Replanned {
	w.mu.Lock()
	defer w.mu.Unlock()
	return board.Replan(done, claim, found, w.zone, w.clock.now(time.Now()).Unix())
}

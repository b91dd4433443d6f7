package exec

import (
	"strconv"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// environment is what the launcher of one start is told beside its own environment. A job that is not
// retried, has no timeout, and whose row says nothing of time, is told of nothing, unless it was
// started before and nobody knows how that ended. Callers must hold w.mu.
func (w *Worker) environment(b *board.Board, s board.Start, now time.Time) (env []string) {
	tell := func(name string, value int64) { env = append(env, name+"="+strconv.FormatInt(value, 10)) }
	claim := s.Claim()
	counts := claim.Plan != nil && w.Again || w.terms[s.Target()].Attempts > 0
	if counts || s.Recovered() {
		tell("JOBD_ATTEMPT", int64(s.Attempt()))
	}
	if s.Recovered() {
		tell("JOBD_RECOVERED", 1)
	}
	if counts {
		tell("JOBD_MAX_ATTEMPTS", int64(b.MostAttempts(s.Job)))
	}
	if claim.PlannedAt != 0 && (claim.From == journal.RowDelayed || claim.Plan != nil && claim.Plan.Schedule != "") {
		tell("JOBD_PLANNED", claim.PlannedAt)
	}
	if timeout, _ := s.Limits(); timeout > 0 {
		tell("JOBD_DEADLINE", now.Add(timeout).Unix())
	}
	return env
}

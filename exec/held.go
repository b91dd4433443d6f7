package exec

import (
	"time"

	"jobd/exec/board"
)

// A request of which it is known that it is to end is not sent any more. It may be that
//
//   - it waits for its connection, or that is being made: cancel, pause and stop take its start back,
//     as that of a job which waits for a process. SIGTERM, SIGINT and SIGKILL end its job;
//   - it has its connection, and the journal is being told of that: it is held until its signal is
//     journalled, and gets that (board/held.go).
//
// The crash argument of the first: the journal says that the request was announced, and not that it had a
// connection. So the next start knows that it was never sent. A signal counts as delivered once the end
// of its job is journalled, which says who has sent it.

// takeBack takes back the start of a process if it waits still.
func takeBack(process any) {
	if waiting, is := process.(withdrawable); is {
		waiting.Withdraw()
	}
}

// waits tells whether a process is a request that has no connection yet, and is ended by a signal.
func waits(process Process, signo int) bool {
	_, held := process.(Held)
	return held && board.EndsRequest(signo) && !isClosed(process.Begun())
}

// endsUnsent has the board note on whose behalf a request is to end that waits for its connection.
func (w *Worker) endsUnsent(j *board.Job, by string, ends bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.board.GiveUp(j, by, ends)
}

// endUnsent ends a request that waits for its connection by a signal, and tells whether the journal knows
// that in time.
func (w *Worker) endUnsent(j *board.Job, process Process, signo int) bool {
	if process.Signal(signo) != nil {
		return false
	}
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	for {
		moves := w.movesOf(j)
		if moves == nil {
			return true
		}
		select {
		case <-moves:
		case <-timer.C:
			return false
		case <-w.turned:
			return false
		}
	}
}

// movesOf gives a channel that is closed at a job's next move; nil where it is gone.
func (w *Worker) movesOf(j *board.Job) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.board.Job(j.ID()) != j {
		return nil
	}
	return j.Moved()
}

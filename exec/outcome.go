package exec

import (
	"fmt"
	"time"

	"jobd/journal"
)

// answerDelay is how long an answer waits for the table to show the outcome.
const answerDelay = time.Second

// answer tells a client how its job ended.
func (w *Worker) answer(client *waiter, seq uint64, done journal.Done) {
	defer w.running.Done()
	timer := time.NewTimer(answerDelay)
	defer timer.Stop()
	select {
	case <-w.Mirror.Shown(seq, 0):
	case <-timer.C:
	}
	result := resultOf(done)
	client.tell(&result, "")
}

// failure is the outcome of a job that could not be started.
func failure(reason string) journal.Done {
	text := []byte("jobd: " + reason + "\n")
	return journal.Done{Result: "fail", Reason: reason, Stderr: journal.Output{Kept: text, Size: int64(len(text))}}
}

// unknownOutcome is the outcome of a job that nobody saw ending.
func (w *Worker) unknownOutcome(attempt int, reason string) journal.Done {
	if w.Requeue {
		reason = fmt.Sprintf("%s; attempt %d of %d", reason, attempt, w.MaxAttempts)
	}
	return failure("outcome unknown: " + reason)
}

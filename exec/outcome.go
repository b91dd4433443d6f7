package exec

import (
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

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
func (w *Worker) answer(a board.Answer) {
	timer := time.NewTimer(answerDelay)
	defer timer.Stop()
	select {
	case <-w.Mirror.Shown(a.End.Seq, a.End.Job):
	case <-timer.C:
	}
	done, _ := a.End.Payload.(journal.Done)
	result := resultOf(done)
	a.Client.(*waiter).tell(&result, "")
}

package rule

import (
	"errors"
	"fmt"
	"strings"

	"jobd/journal"
	"jobd/store"
)

// Verdict is what a claim makes of some of its rows.
type Verdict struct {
	verdict
	Jobs []int64
}

// verdict is what a row gets: the status and, where they are not empty, the token and the time of the
// start.
type verdict struct {
	status string
	token  string
	start  int64 // seconds since 1970, for running; else 0
	// note: why, for ignored where somebody cancelled it, or the row can't be understood; the
	// original's ignored rows have none.
	note  string
	times times // what they say about time from now on

	delayed bool  // the rows were; else they were waiting or manual
	retried bool  // the rows have ended, and are set back
	set     int64 // time_finished of such rows that have none, in seconds since 1970; else 0
}

// Verdicts gathers the events that decide answered for the locked rows: rows
// that get the same stand together. An event for another row, for a row that is not waiting,
// manual or delayed, or, of a retry, that has not ended as the event says, or of another kind is an
// error.
func Verdicts(rows []journal.Row, events []journal.Event) ([]Verdict, error) {
	locked := make(map[int64]journal.Row, len(rows))
	for _, row := range rows {
		locked[row.Job] = row
	}
	decisions := make(map[int64]verdict, len(events))
	var order []int64
	for _, e := range events {
		former, again := decisions[e.Job]
		decision, err := decide(locked, former, e)
		if err != nil {
			return nil, fmt.Errorf("claim job %d: %s%w", e.Job, e.Kind(), err)
		}
		if decisions[e.Job] = decision; !again {
			order = append(order, e.Job)
		}
	}
	return together(order, decisions), nil
}

// together joins the jobs whose rows get the same.
func together(order []int64, decisions map[int64]verdict) (verdicts []Verdict) {
	place := map[verdict]int{}
	for _, job := range order {
		at, known := place[decisions[job]]
		if !known {
			at = len(verdicts)
			place[decisions[job]] = at
			verdicts = append(verdicts, Verdict{verdict: decisions[job]})
		}
		verdicts[at].Jobs = append(verdicts[at].Jobs, job)
	}
	return verdicts
}

// decide is what an event makes of its row, after what the one before it of the same job made of
// it.
func decide(locked map[int64]journal.Row, former verdict, e journal.Event) (verdict, error) {
	row, ok := locked[e.Job]
	if !ok {
		return verdict{}, errors.New(", but it is not among the rows of this claim")
	}
	if payload, ok := e.Payload.(journal.Retried); ok {
		return retry(row, payload, e)
	}
	if !store.IsFree(row) {
		return verdict{}, fmt.Errorf(", but its row is %s: only waiting, manual and delayed rows are claimed", row.Status)
	}
	v := verdict{delayed: row.Status == journal.RowDelayed}
	switch payload := e.Payload.(type) {
	case journal.Accepted:
		v.status, v.token, v.times = journal.RowAccepted, payload.Token, claimed(row, payload.PlannedAt)
		return v, nil
	case journal.Ignored:
		v.status = journal.RowIgnored
		if payload.By != "" || payload.Told {
			v.note = payload.Reason
		}
		return v, nil
	case journal.Planned:
		if !v.delayed {
			return verdict{}, fmt.Errorf(", but its row is %s: only delayed rows are planned", row.Status)
		}
		v.status, v.times = journal.RowDelayed, dueAgain(payload.To)
		return v, nil
	case journal.Running:
		if former.status == journal.RowAccepted {
			former.status, former.start = journal.RowRunning, store.Seconds(e.Time)
			former.times.attempts = exactly(int64(payload.Attempt))
			return former, nil
		}
	}
	return verdict{}, errors.New(": a claim only accepts, plans and ignores, and starts what it accepted")
}

// hasEnded is the condition under which a row is retried.
const hasEnded = "status IN ('done','ignored')"

// retry is what a retry makes of its row. The time of its last end stays in the row until the next
// one, so that a worker whose journal knows an earlier end sees that the row was set back since; a
// row that never ended gets the time of the retry.
func retry(row journal.Row, payload journal.Retried, e journal.Event) (verdict, error) {
	ended := row.Status == journal.RowDone || row.Status == journal.RowIgnored
	back := payload.To == journal.RowWaiting || payload.To == journal.RowManual
	if !ended || !back || row.Status != payload.From || row.Finished != payload.Finished {
		return verdict{}, fmt.Errorf(" from %s to %s, but its row is %s", payload.From, payload.To, row.Status)
	}
	v := verdict{status: payload.To, retried: true, times: setBack(payload.To)}
	if row.Finished == 0 {
		v.set = store.Seconds(e.Time)
	}
	return v, nil
}

// Guard is the condition under which the rows of a claim are updated.
func (v verdict) Guard() string {
	switch {
	case v.retried:
		return hasEnded
	case v.delayed:
		return isDelayed
	}
	return isFree
}

// clear is what a retry sets beside the status: nothing is left of how the job ended but when.
func (v verdict) clear(s *Shape) []Assignment {
	list := []Assignment{s.word(s.Owner, ""), {"time_started", int64(0)}}
	if !strings.EqualFold(s.Owner, store.SigColumn) {
		list = append(list, s.word(store.SigColumn, ""))
	}
	for _, column := range []string{"result", "return_code", "stdout", "stderr"} {
		if value, possible := s.Columns[column].nothing(column); possible {
			list = append(list, Assignment{column, value})
		}
	}
	if v.set != 0 {
		list = append(list, Assignment{"time_finished", v.set})
	}
	return append(list, s.times(v.times)...)
}

// ProbeEach tries the updates of a claim row by row, and tells which rows are refused, and why. try makes
// one update, which is undone later. why is the server's objection; "" if the server takes the update.
func ProbeEach(verdicts []Verdict, try func(Verdict) (why string, err error)) (map[int64]string, error) {
	refused := map[int64]string{}
	for _, verdict := range verdicts {
		for _, id := range verdict.Jobs {
			single := verdict
			single.Jobs = []int64{id}
			why, err := try(single)
			if err != nil {
				return nil, err
			}
			if why != "" {
				refused[id] = why
			}
		}
	}
	return refused, nil
}

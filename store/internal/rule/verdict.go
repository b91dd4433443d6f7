package rule

import (
	"errors"
	"fmt"

	"jobd/journal"
	"jobd/store"
)

// Verdict is what a claim makes of some of its rows: they get the status and, where they are not
// empty, the token and the time of the start.
type Verdict struct {
	status string
	token  string
	start  int64  // seconds since 1970, for running; else 0
	note   string // why, for ignored where somebody cancelled it, or the row can't be understood; the original's ignored rows have none
	times  times  // what they say about time from now on
	from   from   // what they were
	Jobs   []int64

	retried bool  // the rows have ended, and are set back
	set     int64 // time_finished of such rows that have none, in seconds since 1970; else 0
}

// from is what rows were that a claim has locked.
type from int

// What rows were.
const (
	fromFree    from = iota // waiting or manual
	fromDelayed             // delayed
	fromAny                 // any of these
)

// Verdicts gathers the events that decide answered for the locked rows: rows
// that get the same stand together. An event for another row, for a row that is not waiting,
// manual or delayed, or, of a retry, that has not ended as the event says, or of another kind is an
// error.
func Verdicts(rows []journal.Row, events []journal.Event) ([]Verdict, error) {
	locked := make(map[int64]journal.Row, len(rows))
	for _, row := range rows {
		locked[row.Job] = row
	}
	decisions := make(map[int64]Verdict, len(events))
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
func together(order []int64, decisions map[int64]Verdict) (verdicts []Verdict) {
	type key struct {
		status, token, note string
		start, set          int64
		retried             bool
		times               times
		from                from
	}
	place := map[key]int{}
	for _, job := range order {
		v := decisions[job]
		k := key{v.status, v.token, v.note, v.start, v.set, v.retried, v.times, v.from}
		at, known := place[k]
		if !known {
			at = len(verdicts)
			place[k] = at
			verdicts = append(verdicts, v)
		}
		verdicts[at].Jobs = append(verdicts[at].Jobs, job)
	}
	return verdicts
}

// decide is what an event makes of its row, after what the one before it of the same job made of
// it.
func decide(locked map[int64]journal.Row, former Verdict, e journal.Event) (Verdict, error) {
	row, ok := locked[e.Job]
	if !ok {
		return Verdict{}, errors.New(", but it is not among the rows of this claim")
	}
	if payload, ok := e.Payload.(journal.Retried); ok {
		return retry(row, payload, e)
	}
	if !store.IsFree(row) {
		return Verdict{}, fmt.Errorf(", but its row is %s: only waiting, manual and delayed rows are claimed", row.Status)
	}
	v := Verdict{from: fromFree}
	if row.Status == journal.RowDelayed {
		v.from = fromDelayed
	}
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
		if v.from != fromDelayed {
			return Verdict{}, fmt.Errorf(", but its row is %s: only delayed rows are planned", row.Status)
		}
		v.status, v.times = journal.RowDelayed, dueAgain(payload.To)
		return v, nil
	case journal.Running:
		if former.status == journal.RowAccepted {
			former.status, former.start = journal.RowRunning, seconds(e.Time)
			former.times.attempts = exactly(int64(payload.Attempt))
			return former, nil
		}
	}
	return Verdict{}, errors.New(": a claim only accepts, plans and ignores, and starts what it accepted")
}

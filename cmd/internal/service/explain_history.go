package service

import (
	"context"
	"encoding/json"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/net/api"
)

// readHistory takes in what the journal says of the jobs, as far as that is read in the time that
// is left.
func (x *explanation) readHistory(ctx context.Context) {
	r, err := x.Journal()
	if err == nil {
		defer r.Close()
	}
	x.each(func(id int64, job *api.ExplainedJob) {
		if err != nil {
			job.Unread = err.Error()
			return
		}
		events, err := newestOf(ctx, r, id)
		if err != nil {
			x.Logger.Warn("reading the journal for a client failed", "job", id, "error", err)
			job.Unread = err.Error()
		}
		job.Journal = historyOf(id, events)
	})
}

// newestOf gives the newest events of a job, the oldest first.
func newestOf(ctx context.Context, r *replay.Reader, id int64) (events []journal.Event, err error) {
	for e, err := range r.Events(ctx, journal.Filter{Job: id, Last: mostEvents}) {
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

// historyOf is what events say of a job since its newest claim; nil where there are none. They are
// folded as the journal itself folds them, under numbers of their own.
func historyOf(id int64, events []journal.Event) *api.JobHistory {
	if len(events) == 0 {
		return nil
	}
	state := journal.State{KeepEnded: true}
	h := &api.JobHistory{}
	for _, e := range events[newestClaim(events):] {
		e.Seq = state.Seq + 1
		if state.Apply(e) != nil {
			state.Seq++ // its beginning is not kept any more: what follows may say enough
		}
		note(h, e)
	}
	fold(h, state.Job(id))
	return h
}

// newestClaim is the place of the newest event that begins a job's story anew.
func newestClaim(events []journal.Event) int {
	for i := len(events) - 1; i > 0; i-- {
		if kind := events[i].Kind(); kind == journal.KindAccepted {
			return i
		}
	}
	return 0
}

// kindCancelled is the kind of the event that says that somebody wants a job to end.
const kindCancelled journal.Kind = "cancelled"

// note takes in what the fold does not keep.
func note(h *api.JobHistory, e journal.Event) {
	by := byOf(e.Payload)
	h.Last, h.At, h.By = string(e.Kind()), millis(e.Time), by
	switch p := e.Payload.(type) {
	case journal.Done:
		h.Ran, h.Timeout = p.Elapsed, p.Timeout
	case journal.Planned:
		h.WasDue = p.From.RunAt
	case journal.Conflict:
		h.Found = nil
		if p.Found != nil {
			h.Found = &api.FoundRow{Status: p.Found.Status, Owner: p.Found.Owner}
		}
	}
	if e.Kind() == kindCancelled {
		h.Cancelled, h.CancelledBy = h.At, by
	}
}

// byOf is who wanted what an event tells of; "" where it does not say.
func byOf(p journal.Payload) string {
	var who struct{ By string }
	if text, err := json.Marshal(p); err == nil {
		_ = json.Unmarshal(text, &who) // a payload whose by is something else says nobody
	}
	return who.By
}

// fold takes in what the fold of the events keeps.
func fold(h *api.JobHistory, j journal.Job) {
	h.Status, h.Target, h.Token = string(j.Status), j.Target, j.Token
	h.Claimed, h.Started, h.Ended = millis(j.Accepted), millis(j.Running), millis(j.Ended)
	h.Attempt, h.Lost = j.Attempt, j.Lost
	if j.Process != nil {
		h.PID = j.Process.Pid
	}
	h.Result, h.Code, h.Signal, h.Reason = j.Result, j.Code, j.Signal, j.Reason
	h.Planned = j.PlannedAt
	if again := j.Again; again != nil {
		h.Again = &api.JobAgain{RunAt: again.RunAt, PlannedAt: again.PlannedAt, Attempts: again.Attempts, Why: again.Why}
	}
}

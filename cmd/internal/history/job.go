package history

import (
	"context"
	"iter"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	jobnet "jobd/net"
)

// AtQuery selects jobs by how they stood at a time. In its JSON form it is the data of journal-state.
type AtQuery struct {
	At     time.Time      `json:"at,omitzero"` // the zero time: now
	Status journal.Status `json:"status,omitempty"`

	// UnderWay selects, instead, the jobs that were under way just before At; the zero time: where the history begins.
	UnderWay bool `json:"under_way,omitempty"`
}

// Job is a job's state in its form on the wire, and as jobctl prints it.
type Job struct {
	Job      jobnet.Whole   `json:"job"`
	Target   string         `json:"target"`
	Manual   bool           `json:"manual"`
	Status   journal.Status `json:"status"`
	Token    string         `json:"token,omitempty"`
	Result   string         `json:"result,omitempty"`
	Code     *int           `json:"code,omitempty"`
	Signal   string         `json:"signal,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Attempt  int            `json:"attempt"`
	Accepted time.Time      `json:"accepted,omitzero"`
	Running  time.Time      `json:"running,omitzero"`
	Ended    time.Time      `json:"ended,omitzero"`
}

// jobOf is the form of a job.
func jobOf(j journal.Job) Job {
	return Job{
		Job: jobnet.Whole(j.ID), Target: j.Target, Manual: j.Manual, Status: j.Status, Token: j.Token,
		Result: j.Result, Code: j.Code, Signal: j.Signal, Reason: j.Reason,
		Attempt: j.Attempt, Accepted: j.Accepted, Running: j.Running, Ended: j.Ended,
	}
}

// Before is the order of Jobs: first those at their end, by when they ended, then the others, by id.
func (j Job) Before(other Job) bool {
	switch {
	case j.Ended.IsZero() && other.Ended.IsZero():
		return j.Job < other.Job
	case j.Ended.IsZero() || other.Ended.IsZero():
		return other.Ended.IsZero()
	}
	return j.Ended.Before(other.Ended)
}

// Jobs gives every job of the status, or all, as it stood at the time. It ends at the first error.
func Jobs(ctx context.Context, r *replay.Reader, q AtQuery) iter.Seq2[Job, error] {
	if q.UnderWay {
		return underWay(ctx, r, q.At)
	}
	return func(yield func(Job, error) bool) {
		for job, err := range r.Jobs(ctx, q.At) {
			if err == nil && q.Status != "" && job.Status != q.Status {
				continue
			}
			if !yield(jobOf(job), err) || err != nil {
				return
			}
		}
	}
}

// underWay gives the jobs that were under way just before a time.
func underWay(ctx context.Context, r *replay.Reader, at time.Time) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		jobs, err := r.UnderWay(ctx, at)
		if err != nil {
			yield(Job{}, err)
			return
		}
		for _, job := range jobs {
			if !yield(jobOf(job), nil) {
				return
			}
		}
	}
}

// Statuses lists what a job that the journal mentions may be.
func Statuses() []journal.Status {
	return []journal.Status{
		journal.StatusAccepted, journal.StatusStarting, journal.StatusRunning, journal.StatusDone,
		journal.StatusReleased, journal.StatusIgnored, journal.StatusRetried, journal.StatusConflict,
	}
}

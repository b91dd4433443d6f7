package journal

import (
	"fmt"
	"slices"
)

// This file is the transition table. Read it as: an event of this kind is legal
// while the job has one of these statuses.
//
//	accepted   anything that is not under way     → accepted
//	ignored    anything that is not under way     → ignored
//	released   accepted, starting                 → released
//	running    accepted, starting, running        → starting
//	started    starting                           → running
//	signal     running                            → running
//	done       starting, running                  → done
//	conflict   accepted, starting                 → conflict
//	           running                            → running, marked as lost
//	           anything that is not under way     → unchanged
func (s Status) allows(kind Kind) bool {
	switch kind {
	case KindAccepted, KindIgnored:
		return s.Ended()
	case KindReleased:
		return s == StatusAccepted || s == StatusStarting
	case KindRunning:
		return !s.Ended()
	case KindStarted:
		return s == StatusStarting
	case KindSignal:
		return s == StatusRunning
	case KindDone:
		return s == StatusStarting || s == StatusRunning
	case KindConflict:
		return true
	}
	return false
}

// next is the job after the event.
func (j Job) next(e Event) (Job, error) {
	kind := e.Kind()
	if !j.Status.allows(kind) {
		return Job{}, &IllegalError{Job: j.ID, Kind: kind, Status: j.Status}
	}
	switch p := e.Payload.(type) {
	case Accepted:
		return Job{
			ID: j.ID, Target: p.Target, Manual: p.Manual, Token: p.Token,
			Status: StatusAccepted, Accepted: e.Time,
		}, nil
	case Ignored:
		return Job{ID: j.ID, Status: StatusIgnored, Ended: e.Time, Reason: p.Reason}, nil
	case Released:
		j.Status, j.Ended, j.Reason = StatusReleased, e.Time, p.Reason
	case Running:
		return j.attempt(p, e)
	case Started:
		j.Status, j.Process = StatusRunning, &p
	case Done:
		j.Status, j.Ended = StatusDone, e.Time
		j.Result, j.Code, j.Signal, j.Reason = p.Result, p.Code, p.Signal, p.Reason
	case Conflict:
		return j.conflict(e), nil
	case Signal: // changes nothing but is part of the history
	default: // a pointer, or somebody else's type with our kind
		return Job{}, &IllegalError{Job: j.ID, Kind: kind, Status: j.Status, Detail: fmt.Sprintf("%T is no payload", p)}
	}
	return j, nil
}

// attempt begins a start. A start whose process never came to be may be
// repeated under its number; after a process was there the number must grow.
func (j Job) attempt(p Running, e Event) (Job, error) {
	legal := []int{j.Attempt + 1}
	if j.Status == StatusStarting {
		legal = append(legal, j.Attempt)
	}
	if !slices.Contains(legal, p.Attempt) {
		return Job{}, &IllegalError{Job: j.ID, Kind: KindRunning, Status: j.Status, Detail: "wrong attempt number"}
	}
	j.Status, j.Attempt, j.Runner, j.Claimed, j.Running, j.Process = StatusStarting, p.Attempt, p.Runner, p.Claimed, e.Time, nil
	return j, nil
}

// conflict ends a job that has not been started; a process that runs is waited
// for all the same.
func (j Job) conflict(e Event) Job {
	switch j.Status {
	case StatusAccepted, StatusStarting:
		j.Status, j.Ended = StatusConflict, e.Time
	case StatusRunning:
		j.Lost = true
	}
	return j
}

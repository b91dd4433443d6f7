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
//	signal     running                            → running, marked as to be ended where it says so
//	done       starting, running                  → done
//	conflict   accepted, starting                 → conflict
//	           running                            → running, marked as lost
//	           ignored, of the ignoring itself    → conflict
//	           retried, of the retry itself       → as before that
//	           anything else                      → unchanged
//	set-aside  any                                → unchanged
//	requeued   starting, running                  → unchanged
//	cancelled  accepted, starting                 → ignored
//	           starting, running, of what runs    → unchanged, marked as cancelled
//	retried    anything that is not under way     → retried
//	planned    anything that is not under way     → planned
//	replanned  done, of that claim                → done, what follows is another
//	           anything else                      → unchanged
//
// An event that names its claim's token is about that claim only. A conflict of another claim than
// the one that is under way changes nothing: it is late news of an older one. Anything else with
// another claim's token is refused. A conflict whose Wanted is "ignored" is about an ignored event
// whose transaction was not committed, and about nothing else: it takes that event back, and
// changes no claim. It does not change a cancelled job either: that one has ended already, whatever its
// row says. A conflict whose Wanted is "retried" does the same with a retried event.
func (s Status) allows(kind Kind) bool {
	switch kind {
	case KindAccepted, KindIgnored, KindRetried, KindPlanned:
		return s.Ended()
	case KindReleased:
		return s == StatusAccepted || s == StatusStarting
	case KindRunning, KindCancelled:
		return !s.Ended()
	case KindStarted:
		return s == StatusStarting
	case KindSignal:
		return s == StatusRunning
	case KindDone, KindRequeued:
		return s == StatusStarting || s == StatusRunning
	case KindConflict, KindSetAside, KindReplanned:
		return true
	}
	return false
}

// next is the job after the event.
func (j Job) next(e Event) (Job, error) {
	kind := e.Kind()
	if !j.Status.allows(kind) {
		return Job{}, &IllegalError{Job: j.ID, kind: kind, status: j.Status}
	}
	if token := tokenOf(e.Payload); token != "" && token != j.Token && !j.Status.Ended() {
		if kind == KindConflict || kind == KindSetAside || kind == KindReplanned {
			return j, nil
		}
		return Job{}, &IllegalError{Job: j.ID, kind: kind, status: j.Status, detail: "it is about another claim"}
	}
	switch p := e.Payload.(type) {
	case Accepted:
		return Job{
			ID: j.ID, Target: p.Target, Manual: p.Manual, Token: p.Token,
			Status: StatusAccepted, Accepted: Moment{e.Time},
			Attempt: p.first(), From: p.From, Plan: p.Plan, PlannedAt: p.PlannedAt,
		}, nil
	case Ignored:
		return ignored(j.ID, p, e.Time), nil
	case Retried:
		return j.retried(p, e), nil
	case Planned:
		return planned(j.ID, p, e), nil
	case Replanned:
		if j.Status == StatusDone && j.Token == p.Token {
			j.Again = p.Again
		}
	case Released:
		j.Status, j.Ended, j.Reason = StatusReleased, e.Time, p.Reason
	case Running:
		return j.attempt(p, e)
	case Started:
		j.Status, j.Process = StatusRunning, &p
	case Done:
		j.Status, j.Ended = StatusDone, p.EndedAt(e.Time)
		j.Result, j.Code, j.Signal, j.Reason = p.Result, p.Code, p.Signal, p.Reason
		j.Again = p.Again
	case Cancelled:
		return j.cancel(p, e)
	case Conflict:
		return j.conflict(p, e), nil
	case Signal:
		j.Ends = j.Ends || p.Ends
	case SetAside, Requeued: // change nothing but are part of the history
	default: // a pointer, or somebody else's type with our kind
		return Job{}, &IllegalError{Job: j.ID, kind: kind, status: j.Status, detail: fmt.Sprintf("%T is no payload", p)}
	}
	return j, nil
}

// tokenOf is the token of the claim that an event is about; "" where it does not say, or makes the
// claim itself.
func tokenOf(p Payload) string {
	switch p := p.(type) {
	case Released:
		return p.Token
	case Running:
		return p.Token
	case Done:
		return p.Token
	case Conflict:
		return p.Token
	case SetAside:
		return p.Token
	case Requeued:
		return p.Token
	case Cancelled:
		return p.Token
	case Replanned:
		return p.Token
	}
	return ""
}

// attempt begins a start. A start whose process never came to be may be
// repeated under its number, and so may a request whose connection was made and
// over which nothing was sent; after a process was there the number must grow.
func (j Job) attempt(p Running, e Event) (Job, error) {
	legal := []int{j.Attempt + 1}
	if j.Status == StatusStarting || j.Status == StatusRunning && j.Process.Address != "" {
		legal = append(legal, j.Attempt)
	}
	if !slices.Contains(legal, p.Attempt) {
		return Job{}, &IllegalError{Job: j.ID, kind: KindRunning, status: j.Status, detail: "wrong attempt number"}
	}
	j.Status, j.Attempt, j.Runner, j.Claimed = StatusStarting, p.Attempt, p.Runner, p.Claimed
	j.Running, j.Process = Moment{e.Time}, nil
	j.Executor, j.Timeout, j.KillAfter, j.Ends = p.Executor, p.Timeout, p.KillAfter, false
	return j, nil
}

// retried is a job whose row was set back. What is known of the claim before stays.
func (j Job) retried(p Retried, e Event) Job {
	before := j
	before.Before = nil
	next := Job{
		ID: j.ID, Target: p.Target, Manual: p.To == RowManual, Token: j.Token, Accepted: j.Accepted, Running: j.Running,
		Status: StatusRetried, Ended: e.Time, Retried: &p,
	}
	if j.Status != StatusNone {
		next.Before = &before
	}
	return next
}

// notRetried takes a retry back.
func (j Job) notRetried(p Conflict, e Event) Job {
	switch {
	case j.Status != StatusRetried:
	case j.Before != nil:
		return *j.Before
	default:
		j.Status, j.Ended, j.Reason = StatusConflict, e.Time, p.Reason
	}
	return j
}

// conflict ends a job that has not been started; a process that runs is waited
// for all the same. One of an ignored event takes that back.
func (j Job) conflict(p Conflict, e Event) Job {
	switch ignoring := p.Wanted == RowIgnored; {
	case p.Wanted == WantedRetried:
		return j.notRetried(p, e)
	case ignoring && j.Status == StatusIgnored && j.Token == "":
		j.Status, j.Ended, j.Reason = StatusConflict, e.Time, p.Reason
	case ignoring:
	case j.Status == StatusAccepted, j.Status == StatusStarting:
		j.Status, j.Ended = StatusConflict, e.Time
	case j.Status == StatusRunning:
		j.Lost = true
	}
	return j
}

package runner

import (
	"errors"
	"time"

	jobexec "jobd/exec"
)

// Standing is how the worker stands with its runner.
type Standing struct {
	PID   int       // the runner's; 0: it is not known, or there is none
	Since time.Time // when the connection was made, or lost, or since when nobody answers on it
	Err   error     // why there is none, or that nobody answers; nil: there is one
	Links uint64    // connections that were made so far
}

// misses notes why there is no runner. Callers must hold r.mu.
func (r *Remote) misses(err error) error {
	if r.missed.Err == nil {
		r.missed.Since = time.Now()
	}
	r.missed.Err = err
	return err
}

// answerPatience is how long a runner may take to answer a start; it does so within milliseconds.
const answerPatience = 10 * time.Second

// Standing tells whether the runner is connected, and answers. It does not wait for it.
func (r *Remote) Standing() Standing { return r.standing(time.Now()) }

func (r *Remote) standing(now time.Time) Standing {
	r.mu.Lock()
	l, is := r.link, r.missed
	is.Links = r.links
	r.mu.Unlock()
	switch {
	case is.Err != nil || l == nil:
	case !l.alive():
		is.Since, is.Err = l.end.Since, l.end.Err
	default:
		is.PID, is.Since = l.pid, l.since
		if since := l.unanswered(); !since.IsZero() && now.Sub(since) >= answerPatience {
			is.Since, is.Err = since, errStandsStill
		}
	}
	return is
}

// errStandsStill is about a runner that is connected and does nothing.
var errStandsStill = errors.New("the runner does not answer a request to start a job: it is stopped, or hangs")

// unanswered is when the oldest of the starts was asked for that the runner has not answered; zero:
// it has answered all.
func (l *link) unanswered() (since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.processes {
		if p.asked.IsZero() || p.exited || jobexec.IsClosed(p.begun) {
			continue
		}
		if since.IsZero() || p.asked.Before(since) {
			since = p.asked
		}
	}
	return since
}

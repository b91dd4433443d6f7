package runner

import (
	"errors"
	"sync"
	"time"
)

// Standing is how the worker stands with its runner.
type Standing struct {
	PID   int       // the runner's; 0: it is not known, or there is none
	Since time.Time // when the connection was made, or lost, or since when nobody answers on it
	Err   error     // why there is none, or that nobody answers; nil: there is one
	Links uint64    // connections that were made so far
}

// standing is what was last heard of the runner. Its methods are safe for concurrent use, and never
// wait, because callers must not wait for a runner that does not answer.
type standing struct {
	mu   sync.Mutex
	link *link // the newest; nil: there was none yet
	is   Standing
}

// met notes that a connection was made.
func (s *standing) met(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link, s.is = l, Standing{PID: l.pid, Since: time.Now(), Links: s.is.Links + 1}
}

// missed notes why none could be made.
func (s *standing) missed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.is.Err == nil {
		s.is.Since = time.Now()
	}
	s.is.PID, s.is.Err = 0, err
}

// answerPatience is how long a runner may take to answer a start; it does so within milliseconds.
const answerPatience = 10 * time.Second

// Standing tells whether the runner is connected, and answers.
func (r *Remote) Standing() Standing { return r.standing.at(time.Now()) }

func (s *standing) at(now time.Time) Standing {
	s.mu.Lock()
	is, l := s.is, s.link
	s.mu.Unlock()
	switch {
	case is.Err != nil || l == nil:
	case !l.alive():
		is.PID, is.Since, is.Err = 0, l.end.Since, l.end.Err
	default:
		if since := l.unanswered(); !since.IsZero() && now.Sub(since) >= answerPatience {
			is.Since, is.Err = since, errStandsStill
		}
	}
	return is
}

// errStandsStill is about a runner that is connected and does nothing.
var errStandsStill = errors.New("the runner does not answer: it has been told to start a job, and is stopped, or hangs")

// unanswered is when the oldest of the starts was asked for that the runner has not answered; zero:
// it has answered all.
func (l *link) unanswered() (since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.processes {
		if p.asked.IsZero() || p.exited || isClosed(p.begun) {
			continue
		}
		if since.IsZero() || p.asked.Before(since) {
			since = p.asked
		}
	}
	return since
}

package live

import (
	"time"
)

// poll is what is asked for again and again: the newest answer, and the request under way.
type poll[A any] struct {
	answer   A
	known    bool // there was an answer
	err      error
	begun    time.Time // when the newest request was sent
	underWay bool
	good     time.Time // of the newest answer
}

// answered is the message that a request has come to its end.
type answered[A any] struct {
	answer A
	err    error
	at     time.Time
}

// due tells whether it is to be asked for now, once an interval. A tick that comes a little early
// counts.
func (p *poll[A]) due(now time.Time, interval time.Duration) bool {
	return !p.underWay && now.Sub(p.begun) >= interval-interval/10
}

func (p *poll[A]) begin(now time.Time) { p.begun, p.underWay = now, true }

// end takes an answer. What was known stays where there is none.
func (p *poll[A]) end(a answered[A]) {
	p.underWay, p.err = false, a.err
	if a.err == nil {
		p.answer, p.known, p.good = a.answer, true, a.at
	}
}

// patience is how long an answer may take before the view says that it is waited for.
const patience = 2 * time.Second

// silence says since when there is no answer; false while there is nothing to say.
func (p *poll[A]) silence(now time.Time) (since time.Time, silent bool) {
	since = p.good
	if since.IsZero() {
		since = p.begun
	}
	return since, p.err != nil || p.underWay && now.Sub(p.begun) > patience
}

package runner

import (
	"fmt"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
)

// patience is how long an older runner that is to be left, and always has a job, may go on with that
// before starts are held back for the first time; for how long they are; and how far two such times
// are apart at most, which is twice as long each time.
type patience struct{ first, hold, longest time.Duration }

var usualPatience = patience{first: 10 * time.Second, hold: 5 * time.Second, longest: time.Hour}

// heldStart is a start that the runner is not asked for now. It is among the link's processes.
type heldStart struct {
	of       *process
	messages []wire.Message
}

// holdBack holds starts back, so that the jobs that run end and no other one takes their place, and
// tells whether the runner was left because it had none. A start that is held back has not been sent:
// killed meanwhile, the worker leaves one that never happened.
func (c *connector) holdBack(l *link) (left bool) {
	l.mu.Lock()
	l.owed.holds = true
	jobs := len(l.owed.starts)
	l.mu.Unlock()
	defer l.letGo()
	c.config.Logger.Info("starts wait for a moment, so that the older runner can be left", "pid", l.pid, "jobs", jobs, "for at most", c.patience.hold)
	l.owed.nudge() // its last job may have just ended
	over := time.NewTimer(c.patience.hold)
	defer over.Stop()
	for {
		select {
		case <-l.owed.idle:
			if c.pools.wantsAny() && l.leave() {
				return true
			}
		case <-over.C:
			return false
		case <-l.lost:
			return false
		case <-c.closing:
			return false
		}
	}
}

// hold keeps a start back, if starts are held back. Callers must hold l.mu.
func (l *link) hold(p *process, messages ...wire.Message) bool {
	if l.owed.holds {
		l.owed.held = append(l.owed.held, heldStart{p, messages})
	}
	return l.owed.holds
}

// letGo asks the runner for all starts that were held back.
func (l *link) letGo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release()
}

// release does so. Callers must hold l.mu.
func (l *link) release() {
	for _, h := range l.owed.held {
		l.owed.add(h.of.id)
		for _, m := range h.messages {
			l.post(m)
		}
	}
	l.owed.holds, l.owed.held = false, nil
}

// releaseFor does so where one of them is to be signalled, which the runner has to know then. Callers
// must hold l.mu.
func (l *link) releaseFor(id wire.ID) {
	for _, h := range l.owed.held {
		if h.of.id == id {
			l.release()
			return
		}
	}
}

// giveUp ends the starts that are held back: the runner is left, and they are to be announced with
// another one. Callers must hold l.mu.
func (l *link) giveUp(n *notices) {
	for _, h := range l.owed.held {
		delete(l.processes, h.of.id)
		delete(l.numbers, h.of.id)
		h.of.end(fmt.Errorf("the older runner was left before it was asked: %w", jobexec.ErrRunnerChanged), n)
	}
	l.owed.holds, l.owed.held = false, nil
}

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
	of       *process       // nil: it was taken back
	messages []wire.Message // the start is the last of them, behind its environment
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

// hold keeps a start back, if starts are held back. Whoever cancels its job, pauses its target or stops
// the worker takes it back. Callers must hold l.mu.
func (l *link) hold(p *process, messages ...wire.Message) bool {
	if l.owed.holds {
		l.owed.held = append(l.owed.held, heldStart{p, messages})
		p.withdraw = func() { l.takeBack(p) }
	}
	return l.owed.holds
}

// takeBack ends a start that is held back still. An environment that was to be sent with it stays: starts
// behind it have the same.
func (l *link) takeBack(p *process) {
	var n notices
	defer func() { n.make() }()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, h := range l.owed.held {
		if h.of != p {
			continue
		}
		l.owed.held[i] = heldStart{messages: h.messages[:len(h.messages)-1]}
		l.drop(h, "it was taken back while it waited", &n)
		return
	}
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
		if h.of != nil {
			l.owed.add(h.of.id)
		}
		for _, m := range h.messages {
			l.post(m)
		}
	}
	l.owed.holds, l.owed.held = false, nil
}

// giveUp ends the starts that are held back: the runner is left or lost, and they are to be announced
// with another one. Callers must hold l.mu.
func (l *link) giveUp(n *notices) {
	for _, h := range l.owed.held {
		l.drop(h, "the older runner was left before it was asked", n)
	}
	l.owed.holds, l.owed.held = false, nil
}

// drop ends a start that the runner was not asked for. Callers must hold l.mu.
func (l *link) drop(h heldStart, why string, n *notices) {
	if h.of == nil {
		return
	}
	delete(l.processes, h.of.id)
	delete(l.numbers, h.of.id)
	h.of.end(fmt.Errorf("%s: %w", why, jobexec.ErrRunnerChanged), n)
}

package runner

import (
	"sync"
	"time"

	"jobd/exec/runner/wire"
)

// A runner of another build goes on with what it has, and with new starts. The worker leaves it at a
// moment at which it has nothing: no job, and no outcome that is not journalled. The runner ends by
// itself then, and get starts one of this build.

// owed are the starts that such a runner was asked for and has not forgotten. The link's mutex guards
// it.
type owed struct {
	starts  map[wire.ID]bool // nil: the runner is of this build
	leaving bool             // the worker is about to leave it: it is asked for nothing more
	idle    chan struct{}    // has room for one; receives when there is none left
	once    sync.Once
}

// begin notes what such a runner has.
func (o *owed) begin(processes map[wire.ID]*process) {
	o.starts, o.idle = make(map[wire.ID]bool), make(chan struct{}, 1)
	for id := range processes {
		o.starts[id] = true
	}
}

func (o *owed) add(id wire.ID) {
	if o.starts != nil {
		o.starts[id] = true
	}
}

func (o *owed) remove(id wire.ID) {
	if o.starts == nil {
		return
	}
	if delete(o.starts, id); len(o.starts) == 0 {
		o.nudge()
	}
}

// nudge has replace look.
func (o *owed) nudge() {
	select {
	case o.idle <- struct{}{}:
	default:
	}
}

// leave begins to leave the runner, where it has nothing.
func (l *link) leave() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.alive() {
		return false // its processes are with whoever connects again
	}
	l.owed.leaving = l.owed.leaving || len(l.owed.starts) == 0
	return l.owed.leaving
}

// How long the worker waits for such a runner to end, before it connects again: at first, and at
// most, where it has met such a runner again and again.
const (
	firstReplace = 20 * time.Millisecond
	longReplace  = time.Second
)

// replaceSoon has a runner of another build replaced as soon as it has nothing. Callers must hold c.mu.
func (c *connector) replaceSoon(l *link) {
	l.owed.nudge()
	l.owed.once.Do(func() {
		c.olderMet++
		wait := min(firstReplace<<min(c.olderMet, 10), longReplace)
		c.config.Logger.Info("the runner is of another build: it is left as soon as it has no job", "pid", l.pid)
		go c.replace(l, wait)
	})
}

// replace leaves such a runner, and connects to another one.
func (c *connector) replace(l *link, wait time.Duration) {
	for left := false; !left; {
		select {
		case <-l.owed.idle:
			left = l.leave()
		case <-l.lost: // whoever connects again sees what is there then
			return
		case <-c.closing:
			return
		}
	}
	l.close(leaveTimeout)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.closing:
		return
	}
	if _, err := c.get(); err != nil && !isClosed(c.closing) {
		c.config.Logger.Warn("no other runner can be had for now", "error", err)
	}
}

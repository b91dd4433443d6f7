package runner

import "time"

// A runner of another build goes on with what it has, and with new starts. The worker leaves it at a
// moment at which it has nothing: no job, and no outcome that is not journalled. The runner ends by
// itself then, and get starts one of this build.

// replaceWait is how long the worker waits for such a runner to end, before it connects again.
const replaceWait = 200 * time.Millisecond

// replaceSoon has a runner of another build replaced as soon as it has nothing. Callers must hold c.mu.
func (c *connector) replaceSoon(l *link) {
	c.config.Logger.Info("the runner is of another build: it is left as soon as it has no job", "pid", l.pid)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.toLeave = true
	l.leaveIdle()
}

// leaveIdle begins to leave a runner that is to be left, where it has nothing. Callers must hold l.mu.
func (l *link) leaveIdle() {
	if l.toLeave && !l.leaving && len(l.owed) == 0 && l.alive() {
		l.leaving = true
		go l.of.replace(l)
	}
}

// replace leaves such a runner, and connects to another one.
func (c *connector) replace(l *link) {
	l.close(leaveTimeout)
	select {
	case <-time.After(replaceWait):
	case <-c.ctx.Done():
		return
	}
	if _, err := c.get(); err != nil && c.ctx.Err() == nil {
		c.config.Logger.Warn("no other runner can be had for now", "error", err)
	}
}

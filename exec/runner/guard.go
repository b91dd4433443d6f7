package runner

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// guard ends a process that runs for longer than it may, where its runner is gone. It has a timer,
// and no goroutine.
type guard struct {
	send  func(unix.Signal) error // fails where the process is gone
	ended <-chan struct{}         // closed when the process is gone for good

	mu    sync.Mutex // also held while a signal is sent
	steps wire.Overrun
	timer *time.Timer
	off   bool
}

// The timer's clock stands while the host is asleep, and the limit's does not: so it is looked at
// each longLook. retryLook is how soon a signal is tried again that could not be sent.
const (
	longLook  = time.Minute
	retryLook = time.Second
)

// watchOver starts a guard; it gives nil where no signal will ever be due.
func watchOver(steps wire.Overrun, ended <-chan struct{}, send func(unix.Signal) error) *guard {
	at, ever := steps.Due()
	if !ever {
		return nil
	}
	g := &guard{send: send, ended: ended, steps: steps}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(until(at), g.look)
	return g
}

// until is how long the timer is set that is to ring at an uptime.
func until(at int64) time.Duration {
	return min(time.Duration(max(0, at-proc.Uptime())), longLook)
}

// began is the uptime at which a process was started.
func began(process journal.Started) int64 { return int64(process.StartTime) * proc.Tick }

// look sends what is due.
func (g *guard) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ever := g.steps.Due()
	if g.off || !ever || isClosed(g.ended) {
		return
	}
	if wait := until(at); wait > 0 {
		g.timer.Reset(wait)
		return
	}
	before := g.steps
	for _, signo := range g.steps.Next(proc.Uptime()) {
		if err := g.send(signo); err != nil && signo != unix.SIGCONT {
			g.steps = before
			g.timer.Reset(retryLook)
			return
		}
	}
	if at, ever := g.steps.Due(); ever {
		g.timer.Reset(until(at))
	}
}

// end stops the guard, and gives what it has done. It waits for a signal that is on its way.
func (g *guard) end() wire.Overrun {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.off = true
	g.timer.Stop()
	return g.steps
}

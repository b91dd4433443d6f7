package exec

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// killDelay is how long jobs get between SIGTERM and SIGKILL, and how long the
// kernel gets after that.
const killDelay = 5 * time.Second

// drain ends the worker's work: nothing new starts, what has not started is given
// back, what runs may end, then is made to, or is left to the next start.
func (w *Worker) drain() {
	w.halt()
	if w.handsOver() {
		w.leaveRunning()
	} else {
		w.endRunning()
	}
}

// halt makes sure that nothing starts any more and gives back the jobs that have not started.
func (w *Worker) halt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping = true
	close(w.stop)
	for _, t := range w.targets {
		w.takeBackAll(t)
	}
}

// leaveRunning waits until every start under way has happened or not, and what was not started is given back, so that the
// journal is not closed in the middle of one. It does not wait for long: what a crash would leave to the next start, this
// leaves to it.
func (w *Worker) leaveRunning() {
	w.mu.Lock()
	quiet := w.beginning.empty()
	w.mu.Unlock()
	if !w.within(quiet, w.startsTimeout) {
		w.mu.Lock()
		left := w.beginning.n
		w.mu.Unlock()
		w.Logger.Warn("some starts and releases are under way still; the next start takes them up", "groups", left)
	}
	w.Logger.Info("jobs are left to the next start", "jobs", w.runningJobs())
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, client := range w.waiters {
		client.tell(nil, fmt.Sprintf("job %d goes on while the worker restarts; its row will tell how it ended", id))
	}
}

// endRunning waits for what runs, then ends it.
func (w *Worker) endRunning() {
	ended := w.stopped()
	if !w.within(ended, w.ShutdownTimeout) {
		w.Logger.Warn("jobs still run; ending them", "jobs", w.runningJobs())
		w.signalAll(unix.SIGTERM)
		if !w.within(ended, killDelay) {
			w.signalAll(unix.SIGKILL)
			w.waitKilled(ended)
		}
	}
	w.refuseClients()
}

// stopped gives a channel that is closed when nothing is under way any more.
func (w *Worker) stopped() <-chan struct{} {
	w.mu.Lock()
	begun, ran := w.beginning.empty(), w.running.empty()
	w.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		for _, empty := range []<-chan struct{}{begun, ran} {
			select {
			case <-empty:
			case <-w.turned:
				return
			}
		}
		close(ended)
	}()
	return ended
}

// within waits until all jobs have ended, for a time (0: no limit) or until there is a hurry.
func (w *Worker) within(ended <-chan struct{}, limit time.Duration) bool {
	var expired <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-ended:
		return true
	case <-w.failed: // nothing can be journalled, so nothing may be done to jobs
		return true
	case <-w.hurry:
	case <-expired:
	}
	return false
}

// waitKilled waits for jobs that were killed; one that the kernel can't end is left behind.
func (w *Worker) waitKilled(ended <-chan struct{}) {
	timer := time.NewTimer(killDelay)
	defer timer.Stop()
	select {
	case <-ended:
	case <-w.failed:
	case <-timer.C:
		w.Logger.Error("jobs survived SIGKILL; the next start takes them up", "jobs", w.runningJobs())
		w.Hurry() // what the disk has no room for is not waited for either
	}
}

// refuseClients answers the clients that are left when nothing runs any more.
func (w *Worker) refuseClients() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, client := range w.waiters {
		if j := w.jobs[id]; j == nil || j.process == nil {
			client.refuse(id, "the worker is stopping")
		}
	}
}

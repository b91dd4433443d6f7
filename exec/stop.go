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
	w.giveBack(w.halt())
	if w.handsOver() {
		w.leaveRunning()
	} else {
		w.endRunning()
	}
}

// leaveRunning waits until every start under way has happened or not, so that the
// journal is not closed in the middle of one.
func (w *Worker) leaveRunning() {
	w.beginning.Wait()
	w.Logger.Info("jobs are left to the next start", "jobs", w.runningJobs())
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, client := range w.waiters {
		client.tell(nil, fmt.Sprintf("job %d goes on while the worker restarts; its row will tell how it ended", id))
	}
}

// endRunning waits for what runs, then ends it.
func (w *Worker) endRunning() {
	ended := make(chan struct{})
	go func() {
		w.running.Wait()
		close(ended)
	}()
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

// halt makes sure that nothing starts any more and takes the jobs that have not
// started out of the queues.
func (w *Worker) halt() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping = true
	close(w.stop)
	var queued []int64
	for _, t := range w.targets {
		for _, j := range t.queue {
			// One that ran before stays running in the journal: the next start
			// takes it up as what it is.
			if j.attempt == 1 {
				queued = append(queued, j.id)
			}
			delete(w.jobs, j.id)
		}
		t.queue = nil
	}
	return append(queued, w.haltDue()...)
}

// haltDue takes out the jobs that have a slot and were not announced. The lock is held.
func (w *Worker) haltDue() (claimed []int64) {
	for _, j := range w.inbox.due {
		if j.attempt == 1 {
			claimed = append(claimed, j.id)
			w.free(j)
			w.leave(j)
			continue
		}
		w.drop(j, "the worker is stopping; the next start takes it up")
	}
	w.inbox.due = nil
	return claimed
}

func (w *Worker) giveBack(queued []int64) {
	if err := w.release(queued, stoppedEarly); err != nil {
		w.Logger.Error("claimed jobs could not be given back; the next start does it", "jobs", queued, "error", err)
	}
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

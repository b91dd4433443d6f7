package exec

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/board"
)

// killDelay is how long jobs get between SIGTERM and SIGKILL, and how long the kernel gets after
// that.
const killDelay = 5 * time.Second

// drain ends the worker's work: nothing new starts, what has not started is given back, what runs
// may end, then is made to, or is left to the next start.
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
	var asking []<-chan struct{}
	w.change(func(b *board.Board) board.Effects {
		w.endActive()
		e := b.Stop()
		asking = b.MovesFrom(board.Asking, nil)
		return e
	})
	w.others.Go(func() {
		for _, asked := range asking {
			select {
			case <-asked:
			case <-w.turned:
				return
			}
		}
		w.withdraw(nil)
	})
}

// leaveRunning waits until every start under way has happened or not, and what was not started is
// given back, so that the journal is not closed in the middle of one. It does not wait for long:
// what a crash would leave to the next start, this leaves to it.
func (w *Worker) leaveRunning() {
	if !w.within(w.ended((*board.Board).NoneStarting), w.startsTimeout) {
		w.mu.Lock()
		left := w.board.Starting()
		w.mu.Unlock()
		w.Logger.Warn("some starts and releases are under way still; the next start takes them up", "jobs", left)
	}
	w.endRequests()
	w.Logger.Info("jobs are left to the next start", "jobs", w.runningJobs())
	w.change(func(b *board.Board) board.Effects {
		return b.RefuseClients(true, func(id int64) string {
			return fmt.Sprintf("job %d goes on while the worker restarts; its row will tell how it ended", id)
		})
	})
}

// endRunning waits for what runs, then ends it.
func (w *Worker) endRunning() {
	ended := w.ended((*board.Board).NoneWorking)
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

// ended gives a channel that is closed when nothing has to do with jobs that are to be started any
// more, then no job is in the phases that a channel of the board tells of, and then no client is to
// be answered.
func (w *Worker) ended(phases func(*board.Board) <-chan struct{}) <-chan struct{} {
	none := func() <-chan struct{} {
		w.mu.Lock()
		defer w.mu.Unlock()
		return phases(w.board)
	}
	ended := make(chan struct{})
	w.others.Go(func() {
		for _, wait := range []func() <-chan struct{}{w.starts.Ended, none, w.answers.Ended} {
			select {
			case <-wait():
			case <-w.turned:
				return
			}
		}
		close(ended)
	})
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
	case <-w.patient.Done(): // without a journal nothing may be done to jobs
		return w.whole.Err() != nil
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
	case <-w.whole.Done():
	case <-timer.C:
		w.Logger.Error("jobs survived SIGKILL; the next start takes them up", "jobs", w.runningJobs())
		w.Hurry() // what the disk has no room for is not waited for either
	}
}

// refuseClients answers the clients that are left when nothing runs any more.
func (w *Worker) refuseClients() {
	w.change(func(b *board.Board) board.Effects {
		return b.RefuseClients(false, func(int64) string { return "the worker is stopping" })
	})
}

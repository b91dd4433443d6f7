package exec

import (
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"jobd/journal"
)

// lastSignal is the highest signal number of Linux.
const lastSignal = 64

// SendSignal sends signals to the process groups of jobs that run here, and tells
// for each whether it was delivered. Signal 0 only probes. by is who asked.
func (w *Worker) SendSignal(signals map[int64]int, by string) map[int64]bool {
	delivered := make(map[int64]bool, len(signals))
	for _, id := range slices.Sorted(maps.Keys(signals)) {
		delivered[id] = w.signal(id, signals[id], by)
	}
	return delivered
}

// signal journals a signal and sends it.
func (w *Worker) signal(id int64, signo int, by string) bool {
	j, process := w.process(id)
	if process == nil || signo < 0 || signo > lastSignal {
		return false
	}
	if signo > 0 {
		if err := w.tell(j, journal.Draft{Job: id, Payload: journal.Signal{Signo: signo, By: by}}); err != nil {
			w.Logger.Warn("signal was not sent: it could not be journalled", "job", id, "signal", signo, "error", err)
			return false
		}
	}
	return process.Signal(signo) == nil
}

// startTimeout bounds how long a signal waits for the start of a job whose row says
// running already.
const startTimeout = time.Second

// process is a job that runs here and its process, or nil. A job that is just being
// started is waited for.
func (w *Worker) process(id int64) (*job, Process) {
	w.mu.Lock()
	j := w.jobs[id]
	var begun chan struct{}
	if j != nil {
		begun = j.begun
	}
	w.mu.Unlock()
	if begun != nil {
		timer := time.NewTimer(startTimeout)
		defer timer.Stop()
		select {
		case <-begun:
		case <-timer.C:
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if j == nil || w.jobs[id] != j {
		return nil, nil
	}
	return j, j.process
}

// runningJobs lists the jobs that have a process.
func (w *Worker) runningJobs() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []int64
	for id, j := range w.jobs {
		if j.process != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// signalAll signals everything that runs because the worker stops.
func (w *Worker) signalAll(signal unix.Signal) {
	for _, id := range w.runningJobs() {
		w.signal(id, int(signal), "shutdown")
	}
}

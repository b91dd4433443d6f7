package exec

import (
	"errors"
	"maps"
	"slices"
	"sync"
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

// signalling is a signal that is to be journalled.
type signalling struct {
	job        *job
	draft      journal.Draft
	journalled chan error // receives once, when it is or can't be
}

var errGone = errors.New("the process is gone")

// signal journals a signal and sends it.
func (w *Worker) signal(id int64, signo int, by string) bool {
	j, process := w.process(id)
	if process == nil || signo < 0 || signo > lastSignal {
		return false
	}
	if signo > 0 {
		err := w.journalSignal(j, journal.Signal{Signo: signo, By: by})
		if errors.Is(err, errGone) {
			return false
		}
		if err != nil {
			w.Logger.Warn("signal was not sent: it could not be journalled", "job", id, "signal", signo, "error", err)
			return false
		}
	}
	return process.Signal(signo) == nil
}

// journalSignal has the next turn journal a signal.
func (w *Worker) journalSignal(j *job, signal journal.Signal) error {
	s := &signalling{job: j, draft: journal.Draft{Job: j.id, Payload: signal}, journalled: make(chan error, 1)}
	w.mu.Lock()
	w.inbox.signals = append(w.inbox.signals, s)
	w.nudgeTurn()
	w.mu.Unlock()
	select {
	case err := <-s.journalled:
		return err
	case <-w.turned:
		return errGone
	}
}

// startTimeout bounds how long a signal waits for the start of a job whose row says
// running already.
const startTimeout = time.Second

// process is a job that runs here and its process, or nil. A job that is just being
// started is waited for.
func (w *Worker) process(id int64) (*job, Process) {
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	j, process, asked := w.started(id)
	if asked != nil {
		select {
		case <-asked:
		case <-timer.C:
		}
		j, process, _ = w.started(id)
	}
	if process == nil {
		return nil, nil
	}
	select {
	case <-process.Begun():
		return j, process
	case <-timer.C:
		return nil, nil
	}
}

// started finds a job's process; where its start was not asked for yet, but is about to be, it gives
// a channel that is closed then.
func (w *Worker) started(id int64) (j *job, process Process, asked <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j = w.jobs[id]
	switch {
	case j == nil || !j.slotted:
		return nil, nil, nil
	case j.process != nil:
		return j, j.process, nil
	case j.asked == nil:
		j.asked = make(chan struct{})
	}
	return j, nil, j.asked
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

// signalAll signals everything that runs because the worker stops. It does not wait for long: where the
// disk is full, signals can't be journalled, and are not sent.
func (w *Worker) signalAll(signal unix.Signal) {
	var sending sync.WaitGroup
	for _, id := range w.runningJobs() {
		sending.Go(func() { w.signal(id, int(signal), "shutdown") })
	}
	sent := make(chan struct{})
	go func() {
		sending.Wait()
		close(sent)
	}()
	timer := time.NewTimer(killDelay)
	defer timer.Stop()
	select {
	case <-sent:
	case <-w.hurry:
	case <-timer.C:
	}
}

package exec

import (
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/board"
	"jobd/journal"
)

// byShutdown is on whose behalf a worker that stops sends signals. What somebody else sends ends the
// run: it is not tried again.
const byShutdown = "shutdown"

// lastSignal is the highest signal number of Linux.
const lastSignal = 64

// SendSignal sends signals to the process groups of jobs that run here, and tells for each whether
// it was delivered. Signal 0 only probes. by is who asked.
func (w *Worker) SendSignal(signals map[int64]int, by string) map[int64]bool {
	delivered := make(map[int64]bool, len(signals))
	for _, id := range slices.Sorted(maps.Keys(signals)) {
		delivered[id] = w.signal(id, signals[id], by)
	}
	return delivered
}

// signal journals a signal and sends it.
func (w *Worker) signal(id int64, signo int, by string) bool {
	if signo < 0 || signo > lastSignal {
		return false
	}
	j, process := w.process(id, signo)
	if process == nil {
		return false
	}
	ends := by != byShutdown && j.Claim().Plan != nil
	if waits(process, signo) && w.endsUnsent(j, by, ends) {
		return w.endUnsent(j, process, signo)
	}
	if signo > 0 {
		err := w.journalSignal(j, journal.Signal{Signo: signo, By: by, Ends: ends})
		if errors.Is(err, board.ErrGone) {
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
func (w *Worker) journalSignal(j *board.Job, signal journal.Signal) error {
	journalled := make(chan error, 1)
	w.hear(News{Job: j.ID(), Token: j.Token(), Attempt: j.Attempt()}) // its process comes before it in the journal
	w.change(func(b *board.Board) board.Effects {
		return b.Signal(board.Signal{Job: j, Event: signal, To: journalled})
	})
	select {
	case err := <-journalled:
		return err
	case <-w.turned:
		return board.ErrGone
	}
}

// startTimeout bounds how long a signal waits for the start of a job whose row says running
// already.
const startTimeout = time.Second

// process is a job that runs here and its process, or nil. A job that is just being started is
// waited for, unless the signal that it is to get ends it without that.
func (w *Worker) process(id int64, signo int) (*board.Job, Process) {
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	for {
		j, process, moves := w.started(id)
		if process != nil && waits(process, signo) {
			return j, process
		}
		if process != nil {
			select {
			case <-process.Begun():
				return j, process
			case <-timer.C:
				return nil, nil
			}
		}
		if moves == nil {
			return nil, nil
		}
		select {
		case <-moves:
		case <-timer.C:
			return nil, nil
		}
	}
}

// started finds a job and its process. Where its start was not asked for yet, but is about to be,
// it gives a channel instead that is closed at the job's next move.
func (w *Worker) started(id int64) (j *board.Job, process Process, moves <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j = w.board.Job(id); j == nil {
		return nil, nil, nil
	}
	if process, _ = j.Process().(Process); process == nil && j.Beginning() {
		moves = j.Moved()
	}
	return j, process, moves
}

// runningJobs lists the jobs that have a process.
func (w *Worker) runningJobs() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.board.RunningJobs()
}

// signalAll signals everything that runs because the worker stops. It does not wait for long: where
// the disk is full, signals can't be journalled, and are not sent.
func (w *Worker) signalAll(signal unix.Signal) {
	var sending group
	for _, id := range w.runningJobs() {
		sending.Go(func() { w.signal(id, int(signal), byShutdown) })
	}
	timer := time.NewTimer(killDelay)
	defer timer.Stop()
	select {
	case <-sending.Ended():
	case <-w.patient.Done():
	case <-timer.C:
	}
}

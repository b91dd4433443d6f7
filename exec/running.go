package exec

import (
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// RunningJob is a job that has been started, and whose end is not journalled yet.
type RunningJob struct {
	ID      int64
	Target  string
	Manual  bool
	Attempt int
	Since   time.Time // when its start was announced
	PID     int       // 0: not known yet
	Usage   *Usage    // nil: not known
	Adopted bool      // its runner is gone

	Executor  Mode   // ModeProcess, or what else runs it
	Address   string // of a request: where it was sent
	Cancelled bool   // somebody wants it to end

	Time RunTime
}

// Running lists what runs of some targets (none: all), in no order.
func (w *Worker) Running(targets []string) []RunningJob {
	var running []board.AtWork
	w.change(func(b *board.Board) board.Effects {
		running = b.AtWork(targets)
		return board.Effects{}
	})
	jobs, started := make([]RunningJob, len(running)), make([]journal.Started, len(running))
	for i, r := range running {
		process := r.Process.(Process)
		if isClosed(process.Begun()) {
			started[i] = process.Started()
		}
		jobs[i] = RunningJob{
			ID: r.ID, Target: r.Target, Manual: r.Manual, Attempt: r.Attempt, Since: r.Since,
			PID: started[i].Pid, Adopted: adopted(process), Cancelled: r.Cancelled,
			Executor: modeOf(r.Executor), Address: started[i].Address,
		}
	}
	for i, used := range w.Watcher.Usage(started) {
		jobs[i].Usage = used
		if used != nil && jobs[i].Executor.shares() { // the process was there before the job
			used.Ran = min(used.Ran, time.Since(jobs[i].Since))
		}
	}
	w.noteTimes(jobs)
	return jobs
}

// adopted tells whether a process goes on without its runner.
func adopted(p Process) bool {
	stray, ok := p.(interface{ Adopted() bool })
	return ok && stray.Adopted()
}

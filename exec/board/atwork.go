package board

import "time"

// AtWork is a job whose start was asked for, and whose end is not journalled yet.
type AtWork struct {
	ID      int64
	Target  string
	Manual  bool
	Attempt int
	Since   time.Time // when its start was announced
	Process Process

	Executor  string // what runs it; "": a process of its own
	Cancelled bool   // somebody wants it to end
}

// AtWork lists those of some targets (none: all), in no order.
func (b *Board) AtWork(targets []string) (jobs []AtWork) {
	wanted := make(map[string]bool, len(targets))
	for _, name := range targets {
		wanted[name] = true
	}
	for _, j := range b.jobs {
		if j.hasProcess() && (len(targets) == 0 || wanted[j.target.name]) {
			jobs = append(jobs, AtWork{
				ID: j.id, Target: j.target.name, Manual: j.claim.Manual, Attempt: j.attempt, Since: j.began, Process: j.process,
				Executor: j.executor, Cancelled: j.cancelled != nil,
			})
		}
	}
	return jobs
}

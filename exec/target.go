package exec

import "jobd/journal"

// target is a queue of claimed jobs and the limit on how many of them run at once.
// It is guarded by the worker's mutex.
type target struct {
	name        string
	concurrency int
	paused      bool
	retiring    bool   // to be removed as soon as it is empty
	retiredBy   string // who wants it removed when it is empty; "" nobody
	skipped     bool   // a row was passed over because its job is still under way here
	queue       []*job
	active      int // jobs that hold a slot
	polls       int // how often a poll was asked for
	polled      int // the poll that was last answered by an exhausted table
}

// length counts the jobs of the target, waiting and running.
func (t *target) length() int { return len(t.queue) + t.active }

// wanted tells whether the table may hold jobs that were not claimed yet.
func (t *target) wanted() bool { return t.polls > t.polled }

// room is how many jobs to claim now: as many as there are free slots, and
// prefetch more (negative: one a slot). To claim in batches the prefetched ones are
// replenished when half of them are gone, not one by one.
func (t *target) room(prefetch int) int {
	if t.paused || t.retiring || !t.wanted() {
		return 0
	}
	if prefetch < 0 {
		prefetch = t.concurrency
	}
	free := t.concurrency - t.active
	if len(t.queue) >= max(free, 0)+(prefetch+1)/2 {
		return 0
	}
	return free + prefetch - len(t.queue)
}

// startable tells whether the next job of the queue may have a slot.
func (t *target) startable() bool {
	return !t.paused && len(t.queue) > 0 && t.active < t.concurrency
}

// pop takes the next job from the queue.
func (t *target) pop() *job {
	next := t.queue[0]
	t.queue[0] = nil
	t.queue = t.queue[1:]
	return next
}

// job is a claimed job on its way. What is in the journal about it is not
// repeated here, but for what is looked at all the time. It is guarded by the worker's mutex, but
// for what belongs to whoever journals it.
type job struct {
	id      int64
	target  *target
	attempt int           // of the start to come, or of the process that runs
	waiter  *waiter       // the client that waits
	slotted bool          // it has, or had, a slot
	freed   bool          // and has it no more
	process Process       // nil until its start was asked for
	over    bool          // its end is, or was, in the inbox
	asked   chan struct{} // closed when its start was asked for, or will not be; nil while nobody waits for that

	announced uint64 // the event that says running
	runner    string // the instance that it names
	told      bool   // its process is journalled
	retry     Retry  // of its start; nil before the first one failed
}

// running says that the job is about to be started by a runner; claimed, that its claim says so.
func (j *job) running(instance string, claimed bool) journal.Draft {
	j.runner = instance
	return journal.Draft{Job: j.id, Payload: journal.Running{Attempt: j.attempt, Runner: instance, Claimed: claimed}}
}

// step is a step with some drafts, behind what the journal does not know yet of the job's process.
func (j *job) step(drafts ...journal.Draft) *step {
	s := &step{job: j, drafts: drafts}
	if started := j.process.Started(); !j.told && started.Pid != 0 {
		j.told, s.tells = true, true
		s.drafts = append([]journal.Draft{{Job: j.id, Payload: started}}, drafts...)
	}
	return s
}

// settleAsked tells who waits for the job's start that it was asked for, or will not be.
func (j *job) settleAsked() {
	if j.asked != nil {
		close(j.asked)
		j.asked = nil
	}
}

// Result is how a job ended, as clients are told.
type Result struct {
	Result string  `json:"result"`
	Code   *int    `json:"code"`
	Signal *string `json:"signal"`
	Stdout string  `json:"stdout"`
	Stderr string  `json:"stderr"`
}

// resultOf is what a client is told of an outcome.
func resultOf(done journal.Done) Result {
	r := Result{
		Result: done.Result, Code: done.Code,
		Stdout: done.Stdout.Text(0, journal.CharsetFull), Stderr: done.ShownStderr().Text(0, journal.CharsetFull),
	}
	if done.Signal != "" {
		r.Signal = &done.Signal
	}
	return r
}

package exec

import (
	"time"

	"jobd/journal"
)

// phase is where a job stands on its way:
//
//	queued ──► due ──► announcing ──► announced ──► starting ──► started ──► (its end)
//	 ▲  ▲       ▲                     ▲  │                        │
//	 │  │       └──── renewing ◄──────┼──┼────────────────────────┤ the runner was replaced
//	 │  │       reserved ─────────────┘  │
//	 │  └────── parked ◄─────────────────┤ its row can't be updated for now; it goes back when it says running
//	 └── paused, a manual one ◄──────────┤
//	            leaving ◄────────────────┴────────────────────────┘ paused, the launcher can't be executed, or the
//	                                                                worker stops; so it is with queued and parked ones
//
// Everything from due to started holds a slot; parked holds none. Who does something for a job later looks first whether
// it still stands where it did.
type phase int

const (
	queued     phase = iota // waits for a slot
	reserved                // its claim, which says that it is about to run, is under way
	due                     // the next turn announces it
	announcing              // a turn is journalling that it is about to run
	announced               // waits until its row says so
	parked                  // the same, without a slot
	starting                // the runner is being asked to start it
	started                 // the runner was asked; the process, or the system's refusal, tells what becomes of it
	renewing                // waits to be announced once more, for another runner
	leaving                 // is to be given back, as soon as that is journalled
)

// job is a claimed job on its way. What is in the journal about it is not
// repeated here, but for what is looked at all the time. It is guarded by the worker's mutex, but
// for what belongs to whoever journals it.
type job struct {
	id      int64
	target  *target
	claim   journal.Accepted
	attempt int // of the start to come, or of the process that runs
	phase   phase
	waiter  *waiter       // the client that waits
	slotted bool          // it has, or had, a slot
	freed   bool          // and has it no more
	process Process       // nil until its start was asked for
	over    bool          // its end is, or was, in the inbox
	asked   chan struct{} // closed when its start was asked for, or will not be; nil while nobody waits for that
	recall  chan struct{} // closed when it is not announced any more; nil while nobody waits for that
	reason  string        // why it is given back

	announced uint64    // the event that says running
	began     time.Time // when that was
	runner    string    // the instance that it names
	told      bool      // its process is journalled
	retry     Retry     // of its start; nil before the first one failed
	refusals  int       // starts that were refused for want of something
	launcher  int       // the number of the launcher that it was started with
}

// move brings the job to another phase, and calls back who waits for its row.
func (j *job) move(to phase) {
	if j.phase == parked {
		j.target.parked--
	}
	if to == parked {
		j.target.parked++
	}
	j.phase = to
	if j.recall != nil {
		close(j.recall)
		j.recall = nil
	}
}

// running says that the job is about to be started by a runner; claimed, that its claim says so.
func (j *job) running(instance string, claimed bool) journal.Draft {
	j.runner = instance
	return journal.Draft{Job: j.id, Payload: journal.Running{
		Attempt: j.attempt, Runner: instance, Claimed: claimed, Token: j.claim.Token,
	}}
}

// released says that a claim is given up.
func released(id int64, claim journal.Accepted, reason string) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Released{
		Reason: reason, Target: claim.Target, Manual: claim.Manual, Token: claim.Token,
	}}
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

package board

import (
	"slices"
	"time"

	"jobd/journal"
)

// Client is who waits for a job, Process what the worker has of its process, and Retry the wait
// before it tries a start again. The board keeps them with the job, and never looks into them.
type (
	Client  any
	Process any
	Retry   any
)

// Job is a claimed job on its way. What the journal says about it is not repeated here, but for
// what is looked at all the time.
type Job struct {
	id      int64
	target  *Target
	claim   journal.Accepted
	attempt int
	phase   Phase
	process Process
	unsaid  *journal.Started // its process, as long as the journal does not know it

	announced uint64    // the event that says running
	began     time.Time // when that event was journalled
	peers     *int      // jobs announced together with this one, itself too, that have not ended; nil: not known
	runner    string    // the instance that it names
	executor  string    // what runs it, as its announcement says
	Retry     Retry     // of its start; nil before the first one was put off
	refusals  int       // starts that were refused, in a row
	reason    string    // why it is given back

	setBack int64 // when its row ended before it was set back to wait, in seconds since 1970; 0: it was not

	timeout, killAfter time.Duration // as its announcement says

	leaves    *Cancel               // it leaves because somebody cancelled it; nil: it is given back
	cancelled *journal.Cancellation // it runs, and somebody wants it to end; nil: nobody does

	// These stand together, since a worker may have very many jobs: eight bytes, not eight for each.
	counted   bool // its start is among its target's rates
	said      bool // the journal knows the process of this start
	recovered bool // it was started before, by this claim, and nobody knows how that ended
	ends      bool // somebody has sent a signal to this start: it is not tried again if that has ended it
	stopped   bool // this start got a signal because the worker stops
	unwanted  bool // take its start back, if it still waits
	ending    bool // it is cancelled, also before that is journalled
}

// Target is a queue of claimed jobs, and the limit on how many of them run at once.
type Target struct {
	name        string
	concurrency int
	since       int // targets are ordered by when they were added; 0 is the start
	paused      bool
	pausedSince time.Time // and by whom; zero where it is not paused
	pausedBy    string
	starter     *Starter
	own         Starter // where it has something of its own that starts its jobs
	queue       []*Job
	active      int             // slots in use
	in          [phaseCount]int // jobs by phase
	unseen      []uint64        // ends and releases of its jobs that the table may not show yet, oldest first
	rates       [rateWindow]second
	ended       int // jobs that have ended
	pace        pace
}

// ID is the job's id in the table.
func (j *Job) ID() int64 { return j.id }

// Attempt is the number of the job's start, from 1.
func (j *Job) Attempt() int { return j.attempt }

// Target is the name of the job's target.
func (j *Job) Target() string { return j.target.name }

// Token is the token of the job's claim.
func (j *Job) Token() string { return j.claim.Token }

// Runner is the instance that should start the job. It changes only when the job is announced anew.
func (j *Job) Runner() string { return j.runner }

// Process is what Asked or Adopt gave for the job; nil where it has none now.
func (j *Job) Process() Process { return j.process }

// Phase is where the job stands.
func (j *Job) Phase() Phase { return j.phase }

// Waits tells whether the job waits for its start, and can be taken out of the way to it.
func (j *Job) Waits() bool { return slices.Contains(leavable, j.phase) }

// IsCancelled tells whether the job runs and somebody wants it to end.
func (j *Job) IsCancelled() bool { return j.cancelled != nil }

// Executor is what runs the job, as it was announced; "": a process of its own.
func (j *Job) Executor() string { return j.executor }

// mayLeave tells whether a job can be given back. One that its claim has started before can't: the
// journal says that it ran. What earlier claims have started of the same run is their matter.
func (j *Job) mayLeave() bool { return j.attempt == First(j.claim) && !j.said }

// Claim is the claim of the job.
func (j *Job) Claim() journal.Accepted { return j.claim }

// Recovered tells whether the claim has started the job before, and nobody knows how that ended.
func (j *Job) Recovered() bool { return j.recovered }

// Limits are for how long the start may run, as it was announced, and how much longer it has behind
// SIGTERM; 0: no limit.
func (j *Job) Limits() (timeout, killAfter time.Duration) { return j.timeout, j.killAfter }

// announce notes that the start of a job is journalled, together with those of peers.
func (j *Job) announce(e journal.Event, peers *int) {
	j.announced, j.began, j.peers = e.Seq, e.Time, peers
	*peers++
}

// Start is one announced start of a job. A start that was overtaken, by a pause for one, stands no
// more, and nothing comes of it.
type Start struct {
	*Job
	Seq     uint64 // the event that announces it
	Claimed bool   // its claim did, and its row says so
}

// stands tells whether the job is still in a phase, under the announcement of this start.
func (s Start) stands(p Phase) bool { return s.Job.phase == p && s.Job.announced == s.Seq }

// released says that the job's claim is given up.
func released(id int64, claim journal.Accepted, reason string) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Released{
		Reason: reason, Target: claim.Target, Manual: claim.Manual, Token: claim.Token, From: claim.From, Plan: claim.Plan,
	}}
}

// running drafts the event that a runner is about to start the job. claimed says that the job's claim
// announces it.
func (b *Board) running(j *Job, instance string, claimed bool) journal.Draft {
	j.runner, j.executor = instance, b.timing.executor(j.target.name)
	j.timeout, j.killAfter = b.limits(j)
	return journal.Draft{Job: j.id, Payload: journal.Running{
		Attempt: j.attempt, Runner: instance, Claimed: claimed, Token: j.claim.Token,
		Timeout: seconds(j.timeout), KillAfter: seconds(j.killAfter), Executor: j.executor,
	}}
}

// claimOf is the claim of a job that the journal knows.
func claimOf(j journal.Job) journal.Accepted {
	return journal.Accepted{Target: j.Target, Manual: j.Manual, Token: j.Token, From: j.From, Plan: j.Plan, PlannedAt: j.PlannedAt}
}

// tells notes the job's process, as long as the journal does not know it.
func (j *Job) tells(process journal.Started) {
	if j.unsaid = nil; process.Known() {
		j.unsaid = &process
	}
}

// Ready is since when the job's row could have been claimed, in seconds since 1970: since it was
// made, was set back by hand, or was due, whichever came last. It is 0 where that is not known, and
// where nobody waited for a claim: a client asked for the job, or the same claim started it before.
func (j *Job) Ready() int64 {
	if j.claim.Manual || j.recovered || j.claim.Created == 0 {
		return 0
	}
	ready := max(j.claim.Created, j.setBack)
	if plan := j.claim.Plan; plan != nil && j.claim.From == journal.RowDelayed {
		ready = max(ready, plan.RunAt)
	}
	return ready
}

// note keeps a row, because the claim's events do not hold everything that is needed of it later.
func (c *Claim) note(row journal.Row) {
	if c.rows == nil {
		c.rows = make(map[int64]journal.Row)
	}
	c.rows[row.Job] = row
}

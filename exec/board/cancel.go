package board

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"jobd/journal"
)

// Cancel is somebody's wish that a job does not run. What has not started leaves the board, and its
// row becomes ignored; what runs is marked, and the caller sends the signals. A job is in one phase
// when the wish comes, under the worker's lock, so that it is one of the two. Where the board can't
// tell yet, because the claim, the turn or the runner is about to say, the wish waits for that.
type Cancel struct {
	Job   *Job
	By    string
	Grace time.Duration // between SIGTERM and SIGKILL
	To    chan<- Cancel // the caller's; the board only hands it back, with Did or Err

	Schedule bool // of a row that recurs: it ends with its run; else that recurs, and must run

	Did  Cancelling
	At   time.Time // when it was journalled
	Seq  uint64    // the event that the job's row must show; of one that runs 0
	Next int64     // of a row that goes on to recur: its next run, in seconds since 1970
	Err  error     // why it could not be journalled
}

// errRecurs says why a row that recurs is not cancelled.
var errRecurs = errors.New("it recurs, and no run of it is under way: jobctl cancel --schedule ends it, jobctl schedule pause holds it")

// recurs tells whether a claim is of a row that recurs.
func (b *Board) recurs(c journal.Accepted) bool {
	return b.config.Again && !c.Manual && c.Plan != nil && c.Plan.Schedule != ""
}

// Cancelling is what became of a job that was cancelled.
type Cancelling uint8

// What may become of it.
const (
	NotRun  Cancelling = iota // it was not started, and never will be
	Signals                   // it runs: the caller sends SIGTERM, then SIGKILL
	Hurries                   // it runs and had SIGTERM before: its SIGKILL comes earlier
	Already                   // it runs and had SIGTERM before: its SIGKILL comes no later anyway
	GivenUp                   // it ran before, and its next attempt does not: it is done
)

// Cancel has the next turn journal that a job is cancelled. It is false where the job's phase allows no
// answer yet: the caller asks again when the board has changed.
func (b *Board) Cancel(c Cancel) (taken bool, e Effects) {
	j := c.Job
	switch {
	case j.Waits() && b.recurs(j.claim) && !c.Schedule:
		c.Err = errRecurs
		b.effects.Cancelled = append(b.effects.Cancelled, c)
	case j.Waits():
		b.leaveCancelled(c)
	case j.phase == Running:
		b.inbox.cancels = append(b.inbox.cancels, c)
		b.effects.Turn = true
	default:
		return false, b.follow()
	}
	return true, b.follow()
}

// leavable are the phases in which a job waits for its start, and can be taken out of the way to it.
var leavable = []Phase{Queued, Due, Announced, Renewing}

// leaveCancelled takes a job out of the way to its start. As one that is given back it stays on the
// board until that is journalled.
func (b *Board) leaveCancelled(c Cancel) {
	j := c.Job
	if j.phase == Queued {
		j.target.queue = slices.DeleteFunc(j.target.queue, func(other *Job) bool { return other == j })
	}
	b.giveBack(j, journal.CancelledBy(c.By))
	j.leaves = &c
	b.inbox.due = slices.DeleteFunc(b.inbox.due, func(other *Job) bool { return other == j })
	b.dispatch(j.target)
}

// leave is what is journalled of a job that leaves the board: its release, or that it was cancelled.
// One that was started before ends as failed: its row can't read as if it had never run.
func (b *Board) leave(j *Job) *Step {
	c := j.leaves
	if c == nil {
		return &Step{job: j, Drafts: []journal.Draft{released(j.id, j.claim, j.reason)}, then: b.left}
	}
	drafts := []journal.Draft{j.cancelDraft(*c)}
	if !j.mayLeave() {
		drafts = append(drafts, journal.Draft{Job: j.id, Payload: cancelledDone(journal.Done{Token: j.claim.Token}, c.By)})
	}
	return &Step{job: j, Drafts: drafts, then: b.left}
}

// cancelDraft says that a job is cancelled.
func (j *Job) cancelDraft(c Cancel) journal.Draft {
	p := journal.Cancelled{By: c.By, Token: j.claim.Token, Schedule: c.Schedule}
	if j.phase == Running || !j.mayLeave() {
		p.Runs, p.Grace = true, c.Grace.Microseconds()
	}
	return journal.Draft{Job: j.id, Payload: p}
}

// cancelledDone is the end of a job that was cancelled: it has failed, whatever its exit code says.
func cancelledDone(done journal.Done, by string) journal.Done {
	why := journal.CancelledBy(by)
	done.Result, done.Reason, done.Note = "fail", joined(why, done.Reason), joined(why, done.Note)
	return done
}

// cancelStep is what a turn journals of a job that runs and is cancelled: with the wish its SIGTERM,
// unless it had that before. It is nil where the job is gone, or gets SIGKILL sooner anyway.
func (b *Board) cancelStep(c Cancel, now time.Time) *Step {
	j, was := c.Job, c.Job.cancelled
	if was != nil && c.Schedule && !was.Schedule { // that is new, and nobody's grace is longer for it
		c.Grace = min(c.Grace, max(was.Deadline().Sub(now)-1, 0))
	}
	c.Schedule = c.Schedule || was != nil && was.Schedule
	if b.recurs(j.claim) && !c.Schedule {
		e := runEnd{claim: j.claim, failed: true, final: true, timing: b.timing, now: b.planTime(now)}
		if again, _ := e.again(); again != nil {
			c.Next = again.RunAt
		}
	}
	mark := func(s *Step) { b.marked(c, s) }
	switch {
	case j.phase != Running:
		c.Err = ErrGone
	case was == nil && !j.ending:
		c.Did, j.ending = Signals, true
		return j.step(mark, j.cancelDraft(c), journal.Draft{Job: j.id, Payload: journal.Signal{Signo: sigterm, By: c.By}})
	case was == nil, c.Schedule && !was.Schedule, now.Add(c.Grace).Before(was.Deadline()):
		c.Did = Hurries
		return j.step(mark, j.cancelDraft(c))
	default:
		c.Did, c.At, c.Grace, c.By = Already, was.Time.Time, time.Duration(was.Grace)*time.Microsecond, was.By
	}
	b.effects.Cancelled = append(b.effects.Cancelled, c)
	return nil
}

// CancelRow is what is journalled of a row that nobody has claimed, and that somebody cancels. It
// leaves any row as found that does not wait; elsewhere says that a worker has it, maybe this one,
// which must be asked.
func (b *Board) CancelRow(row journal.Row, by string, schedule bool) (drafts []journal.Draft, refusal string, elsewhere bool) {
	switch {
	case UnderWay(row), b.Holds(row.Job):
		return nil, "a worker has it: its row is " + row.Status, true
	case row.Status == journal.RowDelayed && !b.config.Delays:
		return nil, fmt.Sprintf("job %d is delayed, and delayed rows are not run here: the key use_columns does not name run_at", row.Job), false
	case row.Status != journal.RowWaiting && row.Status != journal.RowManual && row.Status != journal.RowDelayed:
		return nil, fmt.Sprintf("job %d is %s already", row.Job, row.Status), false
	case b.stopping:
		return nil, "worker is stopping", false
	case !schedule && row.Status != journal.RowManual && row.Plan != nil && row.Plan.Schedule != "":
		return nil, errRecurs.Error(), false
	}
	return []journal.Draft{{Job: row.Job, Payload: journal.Ignored{
		Target: row.Target, Reason: journal.CancelledBy(by), By: by, Manual: row.Status == journal.RowManual,
	}}}, "", false
}

// sigterm is the number of SIGTERM.
const sigterm = 15

// marked notes that a job that runs is cancelled, as the journal says by now.
func (b *Board) marked(c Cancel, s *Step) {
	if c.Err = s.Err; c.Err == nil {
		c.At = s.Events[len(s.Events)-1].Time
		s.job.cancelled = &journal.Cancellation{
			Time: journal.Moment{Time: c.At}, By: c.By, Grace: c.Grace.Microseconds(), Schedule: c.Schedule,
		}
	}
	s.job.ending = s.job.cancelled != nil
	b.effects.Cancelled = append(b.effects.Cancelled, c)
}

// cancelled takes a job off the board that was cancelled before it was started.
func (b *Board) cancelled(s *Step) {
	j, c := s.job, *s.job.leaves
	c.Did = NotRun
	end := s.Events[len(s.Events)-1]
	c.At, c.Seq = end.Time, end.Seq
	if _, ran := end.Payload.(journal.Done); ran {
		c.Did = GivenUp
		b.tell(j.id, Told{End: &end})
	} else {
		b.tell(j.id, Told{Why: fmt.Sprintf("job %d was %s", j.id, j.reason)})
	}
	b.effects.Cancelled = append(b.effects.Cancelled, c)
	b.remove(j)
}

// fate is how a start ended, as far as that counts. A job that was cancelled is started no more,
// whatever has become of the start.
func (j *Job) fate(f Fate) Fate {
	if j.cancelled != nil && (f == NotAsked || f == NotStarted) {
		return Impossible
	}
	return f
}

// known notes that the journal knows a job's process, or could not be told of it. A request, whose
// process is its address, is sent once that is journalled, and not before. Where that contradicts the
// journal the request is never sent: nothing is left to be known of it.
func (b *Board) known(s *Step) {
	j := s.job
	started, _ := s.Drafts[0].Payload.(journal.Started)
	if s.Err != nil {
		j.tells(started)
	} else {
		j.said = true
	}
	if started.Address != "" && j.phase == Running {
		b.effects.Held = append(b.effects.Held, Held{Process: j.process, Go: s.Err == nil})
	}
}

// Unwanted takes the start of a job back, if it still waits, and gives its process; nil where it has
// none.
func (b *Board) Unwanted(j *Job) Process {
	j.unwanted = j.unwanted || j.phase == Asked
	return j.process
}

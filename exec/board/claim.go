package board

import (
	"fmt"
	"time"

	"jobd/journal"
)

// Claim is a claim under way: what it has journalled, and the jobs that got a slot with it. Until
// the claim is known to be won their slots are only reserved, and nothing else is built on them.
type Claim struct {
	Events []journal.Event
	starts []*Job
	unfit  map[int64]string // rows that are to be ignored because they can't be run, with their targets

	setBack map[int64]int64 // when rows ended that wait once more, in seconds since 1970
}

// Skipped lists the rows of a target that claims are to leave out: their job is under way here, or
// in doubt.
func (b *Board) Skipped(asked func(target string) bool) (ids []int64) {
	for id, t := range b.skipped {
		if asked(t.name) {
			ids = append(ids, id)
		}
	}
	for id, d := range b.doubts {
		if asked(d.Target) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Probes tells whether one row of a target may be claimed, to see whether its job can be started.
func (b *Board) Probes(t *Target) bool { return b.mayStart() && t.idle() }

// Accept takes a row that a claim has found, and gives what is to be journalled of it: its start
// too, where a slot is free and instance names a runner. The row of a job that is under way here,
// reset by somebody, is left alone, and left out of claims until that has ended. One that is not to be
// run now is planned anew; one that says what can't be is ignored, with the reason.
func (b *Board) Accept(c *Claim, row journal.Row, token, instance string, now time.Time) []journal.Draft {
	t, served := b.targets[row.Target]
	switch {
	case !served || !t.Open():
		return nil
	case b.Holds(row.Job):
		b.skipped[row.Job] = t
		return nil
	}
	c.noteSetBack(row)
	accepted := journal.Accepted{Target: t.name, Token: token, Created: row.Created}
	if row.Plan == nil {
		return b.accept(c, t, row.Job, accepted, instance)
	}
	p := b.weigh(row, b.planTime(now))
	switch {
	case p.bad != "":
		if c.unfit == nil {
			c.unfit = make(map[int64]string)
		}
		c.unfit[row.Job] = t.name
		return []journal.Draft{{Job: row.Job, Payload: journal.Ignored{Reason: p.bad, Told: true}}}
	case p.again != nil:
		return []journal.Draft{{Job: row.Job, Payload: journal.Planned{Target: t.name, From: *row.Plan, To: *p.again, Reason: p.reason}}}
	}
	if accepted.Plan, accepted.PlannedAt = row.Plan, p.plannedAt; row.Status == journal.RowDelayed {
		accepted.From = journal.RowDelayed
	}
	return b.accept(c, t, row.Job, accepted, instance)
}

// AcceptManual is Accept for a row that a client wants run. A row that is not run stays as it is, and
// the refusal says why.
func (b *Board) AcceptManual(c *Claim, row journal.Row, token, instance string) (drafts []journal.Draft, refusal string) {
	t, served := b.targets[row.Target]
	switch {
	case row.Status != journal.RowManual:
		return nil, "status = " + row.Status + " != manual"
	case b.stopping:
		return nil, "worker is stopping"
	case b.Holds(row.Job):
		return nil, fmt.Sprintf("job %d is still under way", row.Job)
	case !served:
		return nil, fmt.Sprintf("target '%s' not found (job id=%d)", row.Target, row.Job)
	case t.cant() != "":
		return nil, fmt.Sprintf("job %d was not run: %s", row.Job, t.cant())
	}
	accepted := journal.Accepted{Target: row.Target, Manual: true, Token: token, Created: row.Created, Plan: row.Plan}
	return b.accept(c, t, row.Job, accepted, instance), ""
}

func (b *Board) accept(c *Claim, t *Target, id int64, accepted journal.Accepted, instance string) []journal.Draft {
	drafts := []journal.Draft{{Job: id, Payload: accepted}}
	if instance == "" || t.paused || t.cant() != "" || !t.idle() || !b.mayStart() {
		return drafts
	}
	j := b.newJob(id, accepted, First(accepted))
	j.setBack = c.setBack[id]
	b.move(j, Reserved)
	c.starts = append(c.starts, j)
	return append(drafts, b.running(j, instance, true))
}

// Decided notes what a claim has journalled. The events that announce its jobs are in the order of
// the jobs.
func (b *Board) Decided(c *Claim, events []journal.Event) {
	c.Events = events
	starts := c.starts
	for _, e := range events {
		if e.Kind() == journal.KindRunning {
			starts[0].announced, starts[0].began, starts = e.Seq, e.Time, starts[1:]
		}
	}
}

// Withdraw takes back the slots that a claim gave to its jobs: it was not journalled, is undone, or
// is in doubt.
func (b *Board) Withdraw(c *Claim) Effects {
	for _, j := range c.starts {
		b.remove(j)
	}
	c.starts = nil
	return b.follow()
}

// Won goes on with the jobs of a claim that is committed: those with a slot are started, the others
// are queued.
func (b *Board) Won(c *Claim) Effects {
	for _, e := range c.Events {
		switch p := e.Payload.(type) {
		case journal.Accepted:
			if b.jobs[e.Job] == nil {
				b.queueClaim(e.Job, p, c.setBack[e.Job])
			}
		case journal.Planned:
			b.effects.Coming = append(b.effects.Coming, Coming{p.Target, p.To.RunAt, e.Seq})
		}
	}
	for _, j := range c.starts {
		b.move(j, Announced)
		b.effects.Start = append(b.effects.Start, Start{Job: j, Seq: j.announced, Claimed: true})
	}
	c.starts = nil
	return b.follow()
}

// queueClaim queues a job whose claim is won. One that is not to be started here any more is given
// back.
func (b *Board) queueClaim(id int64, claim journal.Accepted, setBack int64) {
	j := b.newJob(id, claim, First(claim))
	j.setBack = setBack
	switch served := b.targets[j.target.name] == j.target; {
	case b.stopping:
		b.giveBack(j, stoppedEarly)
	case !served:
		b.giveBack(j, notServed)
	case j.target.paused && !claim.Manual:
		b.giveBack(j, targetPaused)
	case !b.mayStart():
		b.giveBack(j, b.hitch.Text())
	case j.target.cant() != "":
		b.giveBack(j, j.target.cant())
	default:
		b.enqueue(j)
		b.dispatch(j.target)
	}
}

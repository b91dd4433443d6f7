package board

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"jobd/journal"
)

// Claim is a claim under way: what it has journalled, and the jobs that got a slot with it. Until
// the claim is known to be won their slots are only reserved, and nothing else is built on them.
type Claim struct {
	Events  []journal.Event
	Clients map[int64]Client // who waits for rows that are set back
	starts  []*Job
	rows    map[int64]journal.Row // that become ignored because they can't be run, or have ended before
}

// Skipped lists the rows of a target that claims leave out: their job is under way here, or in doubt.
func (b *Board) Skipped(asked func(target string) bool) (ids []int64) {
	for id, t := range b.skipped {
		if asked(t.name) {
			ids = append(ids, id)
		}
	}
	for id, d := range b.doubts {
		if asked(d.target) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Accept takes a row that a claim has found, and gives the events to journal of it. Where a slot is free
// and instance names a runner, they announce its start, too. If somebody has reset the row while its job
// is under way here, Accept leaves it alone, and claims leave it out until that job has ended. If the row
// can't run now, Accept plans it anew. If its plan makes no sense, Accept ignores it, and gives the reason.
func (b *Board) Accept(c *Claim, row journal.Row, token, instance string, now time.Time) []journal.Draft {
	t, served := b.targets[row.Target]
	switch {
	case b.stopping, !served, !t.Open():
		return nil
	case b.Holds(row.Job):
		b.skipped[row.Job] = t
		return nil
	}
	if row.Finished != 0 {
		c.note(row)
	}
	accepted := journal.Accepted{Target: t.name, Token: token, Created: row.Created}
	if row.Plan == nil {
		return b.accept(c, t, row.Job, accepted, instance)
	}
	p := b.weigh(row, b.planTime(now))
	switch {
	case p.bad != "":
		c.note(row)
		return []journal.Draft{{Job: row.Job, Payload: journal.Ignored{Target: t.name, Reason: p.bad, Told: true}}}
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
	case !t.starter.open(true):
		return nil, fmt.Sprintf("job %d was not run: %s", row.Job, t.starter.why)
	}
	accepted := journal.Accepted{Target: row.Target, Manual: true, Token: token, Created: row.Created, Plan: row.Plan}
	return b.accept(c, t, row.Job, accepted, instance), ""
}

func (b *Board) accept(c *Claim, t *Target, id int64, accepted journal.Accepted, instance string) []journal.Draft {
	drafts := []journal.Draft{{Job: id, Payload: accepted}}
	if instance == "" || t.paused || !t.idle() || !t.starter.open(accepted.Manual) {
		return drafts
	}
	j := b.newJob(id, accepted, First(accepted))
	j.setBack = c.rows[id].Finished
	b.move(j, Reserved)
	c.starts = append(c.starts, j)
	return append(drafts, b.running(j, instance, true))
}

// Decided notes what a claim has journalled. The events that announce its jobs are in the order of
// the jobs.
func (b *Board) Decided(c *Claim, events []journal.Event) {
	c.Events = events
	starts, peers := c.starts, new(int)
	for _, e := range events {
		if e.Kind() == journal.KindRunning {
			starts[0].announce(e, peers)
			starts = starts[1:]
		}
	}
}

// Withdraw removes the jobs to which a claim gave slots, and frees the slots: the claim was not
// journalled, is undone, or is in doubt.
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
				b.queueClaim(e.Job, p, c.rows[e.Job].Finished)
			}
		case journal.Planned:
			b.effects.Coming = append(b.effects.Coming, Coming{p.Target, p.To.RunAt, e.Seq})
			if p.By != "" { // it is due at once, for whichever worker
				b.effects.Free = append(b.effects.Free, p.Target)
			}
		case journal.Retried:
			if p.To == journal.RowWaiting {
				b.effects.Free = append(b.effects.Free, p.Target)
			}
		}
	}
	for _, j := range c.starts {
		b.move(j, Announced)
		b.effects.Start = append(b.effects.Start, Start{Job: j, Seq: j.announced, Claimed: true})
	}
	c.starts = nil
	return b.follow()
}

// queueClaim queues a job whose claim is won.
func (b *Board) queueClaim(id int64, claim journal.Accepted, setBack int64) {
	j := b.newJob(id, claim, First(claim))
	j.setBack = setBack
	b.takeIn(j)
}

// doubt is a journalled event whose COMMIT may have failed, or did: a claim, or a row that should become
// ignored, or be set back. Where it failed, the worker must take the event back.
type doubt struct {
	of      journal.Payload // Accepted, Ignored or Retried
	target  string
	client  Client  // waits to hear whether a row was set back; nil: nobody does
	former  bool    // by a former run of the worker
	started bool    // if it was won, it may have been started, by a runner that is gone
	lost    string  // not "": the worker gives it up, and this is why
	rest    Backoff // of the question whether it was won
	alone   bool    // the table is asked about it by itself
	setBack int64   // when its row ended before it was set back to wait, in seconds since 1970; 0: it was not
}

// How long it takes until the table is asked once more about a claim whose row somebody holds.
const (
	firstDoubt = 50 * time.Millisecond
	longDoubt  = 5 * time.Second
	mostDoubts = 500 // claims that the table is asked about at a time
)

// Doubt remembers a claim whose commit may or may not have happened, or, where lost tells why,
// certainly did not.
func (b *Board) Doubt(c *Claim, lost func(id int64) string) Effects {
	for _, e := range c.Events {
		d := &doubt{of: e.Payload, setBack: c.rows[e.Job].Finished}
		switch p := e.Payload.(type) {
		case journal.Accepted:
			d.target = p.Target
		case journal.Ignored:
			d.target = c.rows[e.Job].Target
		case journal.Retried:
			if b.Holds(e.Job) { // it is claimed here meanwhile, so it was set back
				b.effects.Told = append(b.effects.Told, Told{Client: c.Clients[e.Job]})
				continue
			}
			d.target, d.client = p.Target, c.Clients[e.Job]
		default: // what was planned anew and not committed reads as before, and is planned once more
			continue
		}
		if lost != nil {
			d.lost = lost(e.Job)
		}
		b.doubts[e.Job] = d
	}
	b.effects.Wake = len(b.doubts) > 0
	return b.Withdraw(c)
}

// DoubtFormer remembers an event of a former run. started: if a claim was won, it may have been started
// by a runner that is gone.
func (b *Board) DoubtFormer(id int64, of journal.Payload, started bool) {
	if b.Holds(id) {
		return
	}
	d := &doubt{of: of, former: true, started: started}
	switch p := of.(type) {
	case journal.Accepted:
		d.target = p.Target
	case journal.Retried:
		d.target = p.Target
	}
	b.doubts[id] = d
}

// Doubts counts the claims in doubt.
func (b *Board) Doubts() int { return len(b.doubts) }

// DueDoubts lists the claims that the worker asks the table about in one go.
func (b *Board) DueDoubts(now time.Time) (ids []int64) {
	for id, d := range b.doubts {
		switch {
		case d.lost != "" || d.rest.Due.After(now):
		case d.alone:
			return []int64{id}
		case len(ids) < mostDoubts:
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Judge takes in what the table said of claims in doubt: the row of one that was won bears the
// claim's token, or is ignored. The worker gives up the others. Those that somebody has locked stay
// in doubt, and so do all where the table gave no answer.
func (b *Board) Judge(ids []int64, rows []journal.Row, locked []int64, answered bool, now time.Time) Effects {
	found := make(map[int64]journal.Row, len(rows))
	for _, row := range rows {
		found[row.Job] = row
	}
	for _, id := range ids {
		d := b.doubts[id]
		switch {
		case !answered:
			d.alone = len(ids) > 1 || d.alone
			d.rest.Grow(now, firstDoubt, longDoubt)
		case slices.Contains(locked, id):
			d.rest.Grow(now, firstDoubt, longDoubt)
		default:
			b.judge(id, d, found[id])
		}
	}
	return b.follow()
}

// judge takes in what the table said of one doubt. A row that should have been set back was not, where
// status, result and the second of its end are as before: a later end would have another second. Any
// difference means that it was set back, and changed or deleted later.
func (b *Board) judge(id int64, d *doubt, row journal.Row) {
	same := false // as before the event
	switch of := d.of.(type) {
	case journal.Accepted:
		if !UnderWay(row) || row.Owner != of.Token {
			d.lost = "the claim was not won"
			return
		}
		delete(b.doubts, id)
		if d.started {
			b.lose(journal.Job{ID: id, Attempt: First(of)}, of, killedWhileItRan)
		} else {
			b.queueClaim(id, of, d.setBack)
		}
	case journal.Ignored:
		same = row.Status != journal.RowIgnored && (!d.former || row.Status != "") // it may be deleted since
	case journal.Retried:
		same = row.Status == of.From && row.Finished == of.Finished && row.Result == of.Result
		if !same {
			b.effects.Told = append(b.effects.Told, Told{Client: d.client})
			if row.Status == journal.RowWaiting {
				b.effects.Free = append(b.effects.Free, row.Target)
			}
		}
	}
	switch {
	case !same:
		b.settle(id)
	case d.former:
		d.lost = "when the worker was started again the row was " + row.Status
	default:
		d.lost = "the update was not committed: the row is " + cmp.Or(row.Status, "gone")
	}
}

// settle ends a doubt of which nothing is left to be done.
func (b *Board) settle(id int64) {
	delete(b.doubts, id)
	b.unskip(id)
}

// UnderWay tells whether a row is one that a worker has.
func UnderWay(row journal.Row) bool {
	return row.Status == journal.RowAccepted || row.Status == journal.RowRunning
}

// LostDoubts gives the events to journal of the claims that were not won, one draft each.
func (b *Board) LostDoubts() (drafts []journal.Draft) {
	for id, d := range b.doubts {
		if d.lost != "" {
			drafts = append(drafts, undoing(id, d.of, d.lost)...)
		}
	}
	slices.SortFunc(drafts, func(one, other journal.Draft) int { return cmp.Compare(one.Job, other.Job) })
	return drafts
}

// GivenUp forgets claims whose release is journalled, or which the journal holds as over already.
func (b *Board) GivenUp(drafts []journal.Draft) Effects {
	for _, draft := range drafts {
		id, d := draft.Job, b.doubts[draft.Job]
		b.settle(id)
		b.effects.Poll = append(b.effects.Poll, d.target)
		if d.client != nil {
			b.effects.Told = append(b.effects.Told, Told{Client: d.client, Why: fmt.Sprintf("job %d was not set back: %s", id, d.lost)})
		} else {
			b.refuse(id, d.lost)
		}
	}
	return b.follow()
}

// Undo gives what takes back a claim's events; lost tells why its rows were not committed.
func (c *Claim) Undo(lost func(id int64) string) (drafts []journal.Draft) {
	for _, e := range c.Events {
		drafts = append(drafts, undoing(e.Job, e.Payload, lost(e.Job))...)
	}
	return drafts
}

// undoing is what takes back an event whose row was not committed, one draft at most.
func undoing(id int64, of journal.Payload, why string) []journal.Draft {
	switch p := of.(type) {
	case journal.Accepted:
		return []journal.Draft{released(id, p, why)}
	case journal.Ignored:
		return []journal.Draft{{Job: id, Payload: journal.Conflict{Wanted: journal.RowIgnored, Reason: why}}}
	case journal.Retried:
		return []journal.Draft{{Job: id, Payload: journal.Conflict{Wanted: journal.WantedRetried, Reason: why}}}
	}
	return nil
}

// Hand is what somebody does by hand to the plan of a delayed row.
type Hand uint8

// What that may be.
const (
	RunNow   Hand = iota // it is due now
	Pause                // its schedule is paused
	Continue             // its schedule is paused no longer
)

// PlanRow is what is journalled of a delayed row whose plan somebody changes by hand. now is what the
// clock of the table's server says.
//
// RunNow takes the coming run: the planned start of that stays, and so does the number of its attempt.
// Pause leaves the planned start, and puts off when the row is due until no worker looks any more.
// Continue plans the next run that is still to come: what passed meanwhile is not made up for.
func (b *Board) PlanRow(hand Hand, row journal.Row, by string, now time.Time) (drafts []journal.Draft, refusal string) {
	switch {
	case b.stopping:
		return nil, "worker is stopping"
	case b.Holds(row.Job):
		return nil, fmt.Sprintf("job %d is still under way", row.Job)
	case row.Status != journal.RowDelayed && hand == RunNow:
		return nil, "status = " + row.Status + ": only a delayed row can be run early"
	case row.Status != journal.RowDelayed:
		return nil, "status = " + row.Status + ": a schedule can be paused or continued only while its row is delayed"
	case row.Plan == nil:
		return nil, "its due time is unknown"
	}
	said := *row.Plan
	to := journal.Again{RunAt: now.Unix(), PlannedAt: cmp.Or(said.PlannedAt, said.RunAt), Attempts: said.Attempts}
	times, zone, err := b.timing.read(said)
	switch {
	case to.Attempts > 0:
		to.Why = journal.AgainRetry
	case said.Schedule != "":
		to.Why = journal.AgainSchedule
	}
	reason := "somebody wants it to run now"
	switch {
	case hand == RunNow && said.Paused():
		return nil, "its schedule is paused: jobctl schedule continue ends that"
	case hand == RunNow:
		if to.PlannedAt == 0 && err == nil { // no claim has planned it yet
			if _, every := times.Every(); !every {
				to.PlannedAt = times.Next(to.RunAt, zone)
			}
		}
	case said.Schedule == "":
		return nil, "it does not recur"
	case err != nil:
		return nil, err.Error()
	case said.Paused() != (hand == Continue):
		return nil, map[Hand]string{Pause: "its schedule is paused already", Continue: "its schedule is not paused"}[hand]
	case hand == Pause:
		to.RunAt, reason = journal.PausedAt, "its schedule is paused"
	default:
		to = journal.Again{Why: journal.AgainSchedule}
		if said.PlannedAt != 0 { // else the first claim plans it
			to.PlannedAt = times.Following(said.PlannedAt, now.Unix(), zone)
			if said.PlannedAt > now.Unix() {
				to.PlannedAt = said.PlannedAt
			}
			to.RunAt = to.PlannedAt
		}
		reason = "its schedule goes on"
	}
	return []journal.Draft{{Job: row.Job, Payload: journal.Planned{
		Target: row.Target, From: said, To: to, Reason: reason, By: by,
	}}}, ""
}

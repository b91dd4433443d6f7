package board

import (
	"cmp"
	"slices"
	"time"

	"jobd/journal"
)

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
		d := &doubt{}
		switch p := e.Payload.(type) {
		case journal.Accepted:
			d.Accepted, d.setBack = p, c.setBack[e.Job]
		case journal.Ignored:
			d.ignored, d.Target = true, c.unfit[e.Job]
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

// DoubtOld remembers a claim of a former run. started: if it was won, it may have been started by a
// runner that is gone.
func (b *Board) DoubtOld(old journal.Job, started bool) {
	b.doubts[old.ID] = &doubt{Accepted: claimOf(old), started: started}
}

// DoubtIgnored remembers a row that a former run has ignored.
func (b *Board) DoubtIgnored(id int64) {
	if !b.Holds(id) {
		b.doubts[id] = &doubt{ignored: true, former: true}
	}
}

// Doubts counts the claims in doubt.
func (b *Board) Doubts() int { return len(b.doubts) }

// NextDoubt is when the table is to be asked about claims in doubt; zero where none is, or one is
// at any moment.
func (b *Board) NextDoubt() (first time.Time) {
	for _, d := range b.doubts {
		if due := d.rest.Due; !due.IsZero() && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	return first
}

// DueDoubts lists the claims that the table is to be asked about in one go.
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
// claim's token, or is ignored. The others are to be given up. Those that somebody has locked stay
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

// judge takes in what the table said of one claim.
func (b *Board) judge(id int64, d *doubt, row journal.Row) {
	switch {
	case d.retried != nil:
		b.judgeRetry(id, d, row)
	case d.ignored && (row.Status == journal.RowIgnored || d.former && row.Status == ""): // it may be deleted since
		b.settle(id)
	case d.ignored && d.former:
		d.lost = "when the worker was started again the row was " + row.Status
	case d.ignored && row.Status == "":
		d.lost = "the row is gone"
	case d.ignored:
		d.lost = "the update was not committed: the row is " + row.Status
	case !UnderWay(row) || row.Owner != d.Token:
		d.lost = "the claim was not won"
	default:
		delete(b.doubts, id)
		if d.started {
			b.lose(journal.Job{ID: id, Attempt: First(d.Accepted)}, d.Accepted, journal.Done{}, killedWhileItRan)
		} else {
			b.queueClaim(id, d.Accepted, d.setBack)
		}
		b.unskip(id)
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

// LostDoubts gives what is to be journalled of the claims that were not won, one draft each.
func (b *Board) LostDoubts() (drafts []journal.Draft) {
	for id, d := range b.doubts {
		switch {
		case d.lost == "":
		case d.retried != nil:
			drafts = append(drafts, Unretried(id, d.lost))
		case d.ignored:
			drafts = append(drafts, unignored(id, d.lost))
		default:
			drafts = append(drafts, released(id, d.Accepted, d.lost))
		}
	}
	slices.SortFunc(drafts, func(one, other journal.Draft) int { return cmp.Compare(one.Job, other.Job) })
	return drafts
}

// GivenUp forgets claims whose release is journalled.
func (b *Board) GivenUp(drafts []journal.Draft) Effects {
	for _, draft := range drafts {
		id, d := draft.Job, b.doubts[draft.Job]
		b.settle(id)
		b.effects.Poll = append(b.effects.Poll, d.Target)
		if d.client != nil {
			b.effects.Refusals = append(b.effects.Refusals, Refusal{Client: d.client, Job: id, Why: d.lost, Whole: true})
		}
		if client, waits := b.clients[id]; waits && d.retried == nil {
			b.effects.Refusals = append(b.effects.Refusals, Refusal{Client: client, Job: id, Why: d.lost})
		}
	}
	return b.follow()
}

// Undo gives what takes back a claim's events; lost tells why its rows were not committed.
func (c *Claim) Undo(lost func(id int64) string) (drafts []journal.Draft) {
	for _, e := range c.Events {
		switch p := e.Payload.(type) {
		case journal.Accepted:
			drafts = append(drafts, released(e.Job, p, lost(e.Job)))
		case journal.Ignored:
			drafts = append(drafts, unignored(e.Job, lost(e.Job)))
		}
	}
	return drafts
}

// unignored says that a row was not ignored.
func unignored(id int64, why string) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Conflict{Wanted: journal.RowIgnored, Reason: why}}
}

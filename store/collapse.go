package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"jobd/journal"
)

// batchBytes is how much output goes into one transaction, unless a single job has more.
const batchBytes = 1 << 20

// claim is what a change needs to know of the job's claim.
type claim struct {
	token    string
	target   string
	manual   bool
	accepted time.Time
	newest   bool // it is from the state: events before it may still come, of earlier claims
}

// remember takes the claims of the jobs under way from the state: history may not have them any
// more. It takes the table's server, too, where nobody told it.
func (m *Mirror) remember() {
	m.Source.View(func(s *journal.State) {
		if m.Server == "" {
			m.Server = s.Server
		}
		for id, job := range s.Jobs {
			if !job.Status.Ended() {
				m.claims[id] = claim{job.Token, job.Target, job.Manual, job.Accepted, true}
			}
		}
	})
}

// collapse makes changes of the first n of the events: what each job's newest transition, together
// with those before it, makes of its row. It stops before a job is claimed a second time, so that
// each change is about one claim, and before the output gets too large.
func (m *Mirror) collapse(ctx context.Context, events []journal.Event) (changes []Change, n int, err error) {
	index := make(map[int64]int)
	bytes := 0
	for i, e := range events {
		if bytes += outputSize(e); bytes > batchBytes && len(changes) > 0 {
			return changes, i, nil
		}
		if e.Job == 0 {
			continue
		}
		if accepted, ok := e.Payload.(journal.Accepted); ok {
			if _, pending := index[e.Job]; pending {
				return changes, i, nil
			}
			m.claims[e.Job] = claim{accepted.Token, accepted.Target, accepted.Manual, e.Time, false}
			continue
		}
		if set, ok := e.Payload.(journal.SetAside); ok {
			m.formerlyAside(e, set)
		}
		if !mirrored(e) {
			continue
		}
		c, known, err := m.claim(ctx, e)
		if err != nil {
			return nil, 0, err
		}
		if !known {
			m.lose(e)
			continue
		}
		at, pending := index[e.Job]
		if !pending {
			at, changes = len(changes), append(changes, Change{
				First: e.Seq, Job: e.Job, Target: c.target, Token: c.token, Accepted: c.accepted,
			})
			index[e.Job] = at
		}
		changes[at].advance(e, c)
		if changes[at].Status != journal.RowRunning {
			delete(m.claims, e.Job)
		}
	}
	return changes, len(events), nil
}

// outputSize is how much output an event brings into the table.
func outputSize(e journal.Event) int {
	done, ok := e.Payload.(journal.Done)
	if !ok {
		return 0
	}
	return len(done.Stdout.Kept) + len(done.Stderr.Kept)
}

// mirrored tells whether an event shows in the row by the mirror's work: claims, and the starts
// announced with them, are shown by the claim's own transaction.
func mirrored(e journal.Event) bool {
	switch p := e.Payload.(type) {
	case journal.Running:
		return !p.Claimed
	case journal.Released, journal.Done:
		return true
	}
	return false
}

// advance takes a job's next transition into its change.
func (c *Change) advance(e journal.Event, of claim) {
	c.Seq = e.Seq
	switch p := e.Payload.(type) {
	case journal.Running:
		c.Status, c.Start = journal.RowRunning, e.Time
	case journal.Released:
		c.Status, c.Start = journal.RowWaiting, time.Time{}
		if of.manual {
			c.Status = journal.RowManual
		}
	case journal.Done:
		c.Status, c.Finish, c.Done = journal.RowDone, p.EndedAt(e.Time), &p
	}
}

// wanted is the status that an event wants its row to have.
func wanted(e journal.Event) string {
	var c Change
	c.advance(e, claim{})
	return c.Status
}

// claim is the claim that an event belongs to: the event says it, or, of an older version, memory
// or the journal does. It is not known where retention has removed it.
func (m *Mirror) claim(ctx context.Context, e journal.Event) (c claim, known bool, err error) {
	c, known = m.claims[e.Job]
	known = known && (!c.newest || c.accepted.Before(e.Time))
	told := told(e)
	switch {
	case known && (told.token == "" || told.token == c.token):
		return c, true, nil
	case told.token != "":
		return told, true, nil
	}
	accepted, err := m.Source.Claim(ctx, e.Job, e.Seq)
	if errors.Is(err, journal.ErrNoClaim) {
		return claim{}, false, nil
	}
	if err != nil {
		return claim{}, false, fmt.Errorf("claim of job %d before event %d: %w", e.Job, e.Seq, err)
	}
	c = claim{token: accepted.Token, target: accepted.Target, manual: accepted.Manual}
	m.claims[e.Job] = c
	return c, true, nil
}

// told is what an event itself says of its claim.
func told(e journal.Event) claim {
	switch p := e.Payload.(type) {
	case journal.Running:
		return claim{token: p.Token}
	case journal.Released:
		return claim{token: p.Token, target: p.Target, manual: p.Manual}
	case journal.Done:
		return claim{token: p.Token}
	}
	return claim{}
}

// unknownClaim is why a change can't be made of an event of an older version.
const unknownClaim = "the history does not have the claim any more, so the row can't be told from another claim's"

// lose notes the conflict of an event whose claim nobody knows. A conflict without a token would
// end a claim that is under way now, which is a later one, so then it is only logged.
func (m *Mirror) lose(e journal.Event) {
	m.Logger.Warn("a row is not brought up to date", "job", e.Job, "event", e.Seq, "reason", unknownClaim)
	live := false
	m.Source.View(func(s *journal.State) { live = !s.Job(e.Job).Status.Ended() })
	if !live {
		conflict := journal.Conflict{Wanted: wanted(e), Reason: unknownClaim}
		m.lost = append(m.lost, journal.Draft{Job: e.Job, Payload: conflict})
	}
}

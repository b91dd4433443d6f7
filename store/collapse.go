package store

import (
	"context"
	"fmt"
	"time"

	"jobd/journal"
)

// batchBytes is how much output goes into one transaction, unless a single job has more.
const batchBytes = 1 << 20

// collapse makes changes of the first n of the events: what each job's newest
// transition, together with those before it, makes of its row. It stops before a job is
// claimed a second time, so that each change is about one claim, and before the output gets too large.
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
			m.claims[e.Job] = claim{accepted.Token, accepted.Manual}
			continue
		}
		if !mirrored(e) {
			continue
		}
		c, err := m.claim(ctx, e)
		if err != nil {
			return nil, 0, err
		}
		at, pending := index[e.Job]
		if !pending {
			at, changes = len(changes), append(changes, Change{Job: e.Job, Token: c.token})
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
		c.Status, c.Finish, c.Done = journal.RowDone, e.Time, &p
	}
}

// claim is the claim that an event belongs to, from memory or from the journal.
func (m *Mirror) claim(ctx context.Context, e journal.Event) (claim, error) {
	if c, ok := m.claims[e.Job]; ok {
		return c, nil
	}
	accepted, err := m.Source.Claim(ctx, e.Job, e.Seq)
	if err != nil {
		return claim{}, fmt.Errorf("claim of job %d before event %d: %w", e.Job, e.Seq, err)
	}
	c := claim{accepted.Token, accepted.Manual}
	m.claims[e.Job] = c
	return c, nil
}

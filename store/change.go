package store

import (
	"time"

	"jobd/journal"
)

// advance takes a job's next transition into its change.
func (c *Change) advance(e journal.Event, of claim) {
	switch p := e.Payload.(type) {
	case journal.Running:
		c.Status, c.Start = journal.RowRunning, e.Time
	case journal.Released:
		c.Status, c.Start = journal.RowWaiting, time.Time{}
		if of.manual {
			c.Status = journal.RowManual
		}
	case journal.Cancelled:
		c.cancel(p.Reason())
	case journal.Done:
		c.Status, c.Finish, c.Done = journal.RowDone, p.EndedAt(e.Time), &p
	}
}

// cancel makes a change that ends a claim which was not started: its row is ignored, and tells why
// as a job's stderr would.
func (c *Change) cancel(reason string) {
	c.Status, c.Start, c.Done = journal.RowIgnored, time.Time{}, &journal.Done{Note: reason}
}

// wanted is the status that an event wants its row to have.
func wanted(e journal.Event) string {
	var c Change
	c.advance(e, claim{})
	return c.Status
}

// outputSize is how much output an event brings into the table.
func outputSize(e journal.Event) int {
	done, ok := e.Payload.(journal.Done)
	if !ok {
		return 0
	}
	return len(done.Stdout.Kept) + len(done.Stderr.Kept)
}

// claim is what a change needs to know of the job's claim.
type claim struct {
	token    string
	target   string
	manual   bool
	accepted time.Time
	newest   bool // it is from the state: events before it may still come, of earlier claims
}

// follow makes of a change and a later one of the same claim one.
func (c *Change) follow(later Change) {
	if later.Done != nil && later.Start.IsZero() {
		later.Start = c.Start
	}
	if later.Accepted.IsZero() {
		later.Accepted = c.Accepted
	}
	if later.target == "" {
		later.target = c.target
	}
	later.first = c.first
	*c = later
}

// size is how much output a change brings into the table.
func (c *Change) size() int {
	if c.Done == nil {
		return 0
	}
	return len(c.Done.Stdout.Kept) + len(c.Done.Stderr.Kept)
}

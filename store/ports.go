package store

import (
	"context"
	"time"

	"jobd/journal"
)

// Source is the journal as the mirror needs it.
type Source interface {
	// Next gives the events after seq, at most limit, waiting until there is one.
	Next(ctx context.Context, after uint64, limit int) ([]journal.Event, error)
	// Claim gives the newest accepted event of a job before seq; journal.ErrNoClaim is among the
	// causes of its error where the history has none.
	Claim(ctx context.Context, job int64, seq uint64) (journal.Accepted, error)
	// Retried tells whether a job's row was set back after event seq.
	Retried(ctx context.Context, job int64, seq uint64) (bool, error)
	// Back gives the number after which to read to see again what happened up to an age before
	// event seq.
	Back(ctx context.Context, seq uint64, age time.Duration, limit uint64) (after uint64, err error)
	// View shows the state after everything appended so far.
	View(look func(*journal.State))
	// Append makes the mirror's own events part of the journal.
	Append(drafts ...journal.Draft) ([]journal.Event, error)
}

// Pulse hears that the mirror does a piece of work that only memory is needed for, and that it waits:
// for events, or for anything outside. The methods must not block.
type Pulse interface {
	Works()
	Waits()
}

// Bookmark remembers up to where the table shows the journal. Noting is cheap; what
// was only noted is on disk after Rest.
type Bookmark interface {
	Position() uint64
	SetPosition(seq uint64)
	Rest() error
}

// Applier is the part of a Table that the mirror uses.
type Applier interface {
	Looker
	Apply(ctx context.Context, changes []Change) ([]Outcome, error)
	ClaimManual(ctx context.Context, ids []int64, targets []string, decide Decide) (locked []int64, err error)
	Server(ctx context.Context) (id string, err error)
	Confirm(id string)
}

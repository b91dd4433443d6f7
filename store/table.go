package store

import (
	"context"
	"time"

	"jobd/journal"
)

// Decide looks at rows that a claim has locked and says what is to become of
// them: an event with an Accepted or an Ignored payload for each row to change, and behind an Accepted
// a Running where the job starts as soon as the claim is won; none for a row to leave as it is. By the time
// it returns the events are durable in the journal: the claim's update and commit follow at once. An
// error rolls the claim back.
type Decide = func(rows []journal.Row) ([]journal.Event, error)

// Table is one jobs table. Its methods are safe for concurrent use.
//
// Errors: an *Unusable error is one that waiting cannot mend (access denied, unknown
// database or table, a missing column, an engine without transactions). Any
// other error is worth another try; lost links, deadlocks, lock waits and
// read-only servers are among them.
type Table interface {
	// Check connects and examines the table: columns, engine, character sets, lengths, the
	// owner column's width, the server's version and packet limit. The other
	// methods do it themselves when it has not succeeded yet.
	Check(ctx context.Context) error

	// Claim locks up to room[target] rows of status waiting for each target,
	// lowest ids first, skipping rows that others hold, and lets decide say
	// what becomes of them, all in one transaction. decide is called once at
	// most, and not at all when there is no row.
	//
	// When Claim fails after decide was called, the commit may or may not have
	// happened: the rows must be looked at with Rows to know; except after an
	// *Overtaken error, which says that it has not. Before that call
	// deadlocks and lock waits are retried with jitter.
	Claim(ctx context.Context, room map[string]int, decide Decide) error

	// ClaimManual does the same for the rows with the given ids, whatever
	// their status and target; rows that do not exist are not among those
	// given to decide, which is called even when there are none.
	ClaimManual(ctx context.Context, ids []int64, decide Decide) error

	// Apply brings rows up to date, all in one transaction where it can.
	// It is idempotent, and guarded: a row is changed only while it is accepted or running
	// and bears the change's token. The outcomes are in the order of changes, which name
	// each job once. An error means that nothing is known of any of them; apply them again.
	Apply(ctx context.Context, changes []Change) ([]Outcome, error)

	// Rows reads rows with a locking read, so that it waits for a commit in
	// flight instead of running ahead of it. Rows that do not exist are absent.
	Rows(ctx context.Context, ids []int64) ([]journal.Row, error)

	// UnderWay lists the rows that are accepted or running and whose owner column begins with
	// owner, and those of the given targets whose owner column is empty. It locks nothing.
	UnderWay(ctx context.Context, owner string, targets []string) ([]journal.Row, error)

	// Looker reads rows without locking them.
	Looker

	// Close ends all connections. No other method may be called any more.
	Close() error
}

// Overtaken is among the causes of a claim's error where the server undid it, after decide was called, in favour
// of another transaction, as a node of a Galera cluster does when it learns of another node's.
type Overtaken struct{ Err error }

// Error implements error.
func (e *Overtaken) Error() string { return "another transaction was faster: " + e.Err.Error() }

// Unwrap gives the server's error.
func (e *Overtaken) Unwrap() error { return e.Err }

// Undone tells that nothing of the claim was committed.
func (e *Overtaken) Undone() bool { return true }

// Change is what the newest journalled transitions of one job make of its row.
type Change struct {
	Seq    uint64 // the newest event that went into it
	Job    int64
	Token  string    // the claim's token, the guard of the update
	Status string    // journal.RowRunning, RowDone, or, to give it back, RowWaiting or RowManual
	Start  time.Time // time_started; zero where the job was not started
	Finish time.Time // time_finished, for RowDone
	Done   *journal.Done
}

// Fate is what became of a change.
type Fate int

// The fates. Applied includes a change that a former try had applied already.
const (
	Applied Fate = iota // the row reads as the change wants it
	Lost                // the row is somebody else's by now, or gone, and was left as found
	Refused             // the server takes this update in no form
)

// Outcome tells what became of one change.
type Outcome struct {
	Fate  Fate
	Found *journal.Row // what the row held instead, for Lost; nil: it is gone
	Note  string       // for Applied in a reduced form: what was reduced; for Refused: the server's word
}

// Unusable is an error that waiting cannot mend: somebody has to change the
// configuration, the account or the table.
type Unusable struct {
	Op  string // what was tried
	Err error
}

// Error implements error.
func (e *Unusable) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *Unusable) Unwrap() error { return e.Err }

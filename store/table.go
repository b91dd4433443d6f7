package store

import (
	"context"
	"errors"
	"time"

	"jobd/journal"
)

// Decide looks at rows that a claim has locked and says what becomes of them: an event with an
// Accepted, Ignored, Planned or Retried payload for each row to change, and behind an Accepted a
// Running where the job starts as soon as the claim is won; none for a row to leave as it is. By the time it returns
// the events are durable in the journal: the claim's update and commit follow at once. An error rolls
// the claim back.
type Decide = func(rows []journal.Row) ([]journal.Event, error)

// Table is one jobs table. Its methods are safe for concurrent use.
//
// Errors. Those that tell that the whole table is out of reach have a method Away() bool that says
// true: an *Unusable, which waiting cannot mend (access denied, unknown database or table, a
// missing column, an engine without transactions), and an *Unreachable (no connection, a read-only
// server). Any other error is about some rows, some targets or the moment; it never counts as the
// table being away. An error number alone never tells that all rows are at fault: a trigger may
// raise any.
type Table interface {
	// Check connects and examines the table: columns, engine, character sets, lengths, the
	// owner column's width, the server's version and packet limit. The other
	// methods do it themselves when it has not succeeded yet.
	Check(ctx context.Context) error

	// Server tells which server answers now: a text that is the same as long as what is committed
	// there stays committed, and another one behind a failover or in another file. What it is made of
	// is up to the table; callers compare it, keep it in the journal and show it.
	Server(ctx context.Context) (id string, err error)

	// Confirm makes claims possible on the server of that id, and on no other: a Claim or
	// ClaimManual that reaches another one, or comes before any was confirmed, fails with an
	// *AnotherServer before decide is called, unless its context is one of Comparing. All other
	// methods work on any server. It neither waits nor fails.
	Confirm(id string)

	// Names tells which names of targets can't be served, and why, in words for the operator: names
	// that the column's character set does not have, and names that the column's collation takes
	// for another one of the list, the earlier of which is served.
	Names(ctx context.Context, names []string) (unfit map[string]string, err error)

	// Hold takes an advisory lock, which lasts until Close or until its connection is lost, and
	// tells who has it where it is somebody else: holder is "" where it is ours, taken now or
	// before. Where a server has no such locks it is always ours.
	Hold(ctx context.Context, name string) (holder string, err error)

	// Holder tells who has an advisory lock, without taking it: "" where nobody has it, or it is
	// ours, or the server has no such locks.
	Holder(ctx context.Context, name string) (holder string, err error)

	// Claim locks up to room[target] rows of status waiting for each target,
	// lowest ids first, skipping rows that others hold and those in except, and lets decide say
	// what becomes of them, all in one transaction. decide is called once at
	// most, and not at all when there is no row. Each row's target is the name that was asked for.
	//
	// When Claim fails after decide was called, the commit may or may not have happened: the rows
	// must be looked at with Rows to know; except after an error with a method Undone() bool that
	// says true: an *Overtaken, or a *RefusedRows, which names the rows that can't be claimed.
	// Before that call deadlocks are retried with jitter.
	//
	// A name that Names calls unfit makes the whole claim fail.
	Claim(ctx context.Context, room map[string]int, except []int64, decide Decide) error

	// Waiting tells for which of the targets there are rows of status waiting beside those in
	// except, whoever holds them, committed or not yet. It locks nothing and waits for nobody. A
	// claim that came back short asks it whether somebody else's lock has hidden rows.
	Waiting(ctx context.Context, targets []string, except []int64) ([]string, error)

	// NextDue tells when the next delayed row of each target is due, beside those in except: an
	// empty answer where none is, or where the table uses no such rows. It locks nothing and waits
	// for nobody. Waiting tells of those that are due already, too.
	NextDue(ctx context.Context, targets []string, except []int64) (journal.Due, error)

	// CountWaiting counts the rows of status waiting of a target, whoever holds them, up to a limit,
	// by the index that claims use. It locks nothing and waits for nobody.
	CountWaiting(ctx context.Context, target string, most int) (Counted, error)

	// WaitingTargets lists the targets that rows of status waiting have, whoever serves them, in the
	// order of the index, so many at most. It locks nothing and waits for nobody.
	WaitingTargets(ctx context.Context, most int) ([]string, error)

	// ClaimManual does the same as Claim for the rows with the given ids, whatever their status and
	// target; rows that do not exist are not among those given to decide, which is called even when
	// there are none. A row's target is the one of targets that the table takes it for, else what
	// the row says ("null" where it is NULL). It does not wait for rows that somebody else holds:
	// it tells their ids, and decide is not given them.
	//
	// A Retried sets a row back that has ended, done or ignored, and the result columns are emptied. The
	// time of its last end stays in the row until the next one; where it has none, as a row that
	// was ignored, it gets the time of the retry. So a worker whose journal knows an earlier end
	// sees that the row was set back since, and never brings that end back.
	ClaimManual(ctx context.Context, ids []int64, targets []string, decide Decide) (locked []int64, err error)

	// Apply brings rows up to date, all in one transaction where it can.
	// It is idempotent, and guarded: a row is changed only while it is accepted or running
	// and bears the change's token. The outcomes are in the order of changes, which name
	// each job once. What is wrong with some rows is their outcome: an error is the whole table's,
	// and means that nothing is known of any of them; apply them again.
	Apply(ctx context.Context, changes []Change) ([]Outcome, error)

	// Rows reads rows with a locking read, so that it never runs ahead of a commit in flight. Rows
	// that do not exist are absent; those that somebody else holds, our own transaction whose end
	// is not known among them, are told by id and not waited for.
	Rows(ctx context.Context, ids []int64) (rows []journal.Row, locked []int64, err error)

	// UnderWay lists the rows that are accepted or running and whose owner column begins with
	// owner, and those of the given targets whose owner column is empty. It locks nothing.
	UnderWay(ctx context.Context, owner string, targets []string) ([]journal.Row, error)

	// Unclaimed lists the rows of these targets that are waiting or manual, were created before a
	// time (unix seconds), or at one that the column does not tell, and have a higher id than
	// after: so many at most, by id. It locks nothing.
	Unclaimed(ctx context.Context, targets []string, created, after int64, limit int) (ids []int64, err error)

	// Free lists rows of one status that nobody has claimed (waiting, manual or delayed) of these targets, the
	// highest ids first, below before: so many at most. It reads that many entries of an index for each target,
	// and locks nothing. Where rows are not delayed at all, its error for those is ErrNoDelays.
	Free(ctx context.Context, status string, targets []string, before int64, limit int) ([]*Seen, error)

	// looker reads rows without locking them; Explainer and Timekeeper tell people about them.
	looker
	Explainer
	Timekeeper

	// Close ends all connections. No other method may be called any more.
	Close() error
}

// Overtaken is among the causes of a claim's error where the server undid it, after decide was
// called, in favour of another transaction, as a node of a Galera cluster does when it learns of
// another node's.
type Overtaken struct{ Err error }

// Error implements error.
func (e *Overtaken) Error() string { return "another transaction was faster: " + e.Err.Error() }

// Unwrap gives the server's error.
func (e *Overtaken) Unwrap() error { return e.Err }

// Undone tells that nothing of the claim was committed.
func (e *Overtaken) Undone() bool { return true }

// RefusedRows is among the causes of a claim's error where a rule of the table, such as a trigger
// or a CHECK, refuses the update of some of its rows. Nothing of the claim was committed. No rows
// are named where each by itself would have been taken.
type RefusedRows struct {
	Rows map[int64]string // why, by row
	Err  error
}

// Error implements error.
func (e *RefusedRows) Error() string { return "the table refuses the update: " + e.Err.Error() }

// Unwrap gives the server's error.
func (e *RefusedRows) Unwrap() error { return e.Err }

// Undone tells that nothing of the claim was committed.
func (e *RefusedRows) Undone() bool { return true }

// Refused tells which rows are at fault, and why.
func (e *RefusedRows) Refused() map[int64]string { return e.Rows }

// Change is what the newest journalled transitions of one job make of its row.
type Change struct {
	first    uint64 // the oldest event that went into it
	Job      int64
	target   string    // the claim's; "" where it is not known
	Token    string    // the claim's token, the guard of the update
	Accepted time.Time // of the claim; a row created later is another job that got an old id again; zero: unknown
	// Status: journal.RowRunning, RowDone, RowIgnored, RowDelayed with Done for a row that comes
	// back, or, to give it back, RowWaiting, RowManual, or RowDelayed without Done.
	Status   string
	Start    time.Time // time_started; zero where the job was not started
	Attempts int64     // starts of the run so far, for RowRunning and RowDone; 0: not known
	// Plan: of the claim: what a row that is given back says about time again, and what guards the
	// end of a run; nil where the table uses no such columns.
	Plan   *journal.Plan
	Finish time.Time     // time_finished, for RowDone
	Done   *journal.Done // how it ended, for RowDone; for RowIgnored the Note alone, which says why
}

// Fate is what became of a change.
type Fate int

// The fates. Applied includes a change that a former try had applied already.
const (
	Applied Fate = iota // the row reads as the change wants it
	Lost                // the row is somebody else's by now, or gone, and was left as found
	Refused             // the server takes this update in no form for now, or a rule of the application's refuses it
	Edited              // the row's schedule is another one than the claim's: plan what follows anew from Found
	Held                // somebody else holds the row, or the update failed otherwise; the mirror tries again
)

// Outcome tells what became of one change.
type Outcome struct {
	Fate  Fate
	Newer bool         // for Lost: the row was created after the claim, so it is another job that got an old id again
	Found *journal.Row // what the row holds instead, for Lost, or still, for Refused and Edited; nil: it is gone
	// Note: for Applied in a reduced form: what was reduced; for Refused and Held: why, in words for
	// the operator.
	Note string
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

// Away tells that the whole table is out of reach.
func (e *Unusable) Away() bool { return true }

// Unreachable is an error of the connection: the server can't be reached, or takes no writes.
type Unreachable struct {
	Op  string // what was tried
	Err error
}

// Error implements error.
func (e *Unreachable) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *Unreachable) Unwrap() error { return e.Err }

// Away tells that the whole table is out of reach.
func (e *Unreachable) Away() bool { return true }

// IsAway tells whether an error says that the whole table is out of reach.
func IsAway(err error) bool {
	var known interface{ Away() bool }
	return errors.As(err, &known) && known.Away()
}

// Seen is a row as a look without a lock finds it.
type Seen struct {
	journal.Row
	Created  int64  // time_created, unix seconds; 0 where it is NULL or no number
	Started  int64  // time_started, unix seconds; 0 for none
	Finished int64  // time_finished, unix seconds; 0 for none
	Result   string // "" where it is NULL
	Code     *int64 // return_code; nil where it is NULL or no number
	Signal   string // sig of a row that is done; "" where it is NULL
}

// looker is the part of a Table that reads without a lock, so that nobody waits for it: what it
// finds may be about to change. Its errors are the table's.
type looker interface {
	// Look gives the rows that exist, by job.
	Look(ctx context.Context, ids []int64) (map[int64]*Seen, error)
}

// Detail is all that jobd knows of a row, for people.
type Detail struct {
	Seen
	Code string // return_code as it stands; "" where it is NULL
	Sig  string // likewise

	// Served is the one of the targets that were asked for that the column takes the row's target
	// for; "" where it is none of them.
	Served         string
	Stdout, Stderr Written
}

// Written is one column of output.
type Written struct {
	Size int64  // bytes; 0 where it is NULL
	Tail string // its end, in UTF-8
}

// Waiter is a row for which a client asks how many wait before it.
type Waiter struct {
	Job    int64
	Target string // as the row says
}

// Explainer is the part of a Table that tells people about rows. It locks nothing, waits for no
// lock, and reads what is committed.
type Explainer interface {
	// Details gives the rows that exist, by job, each with up to so many bytes of the end of its
	// output.
	Details(ctx context.Context, ids []int64, targets []string, tail int) (map[int64]*Detail, error)

	// Ahead tells for each waiter, whatever its own status is, how many rows of status waiting a claim
	// takes before it: the rows of its target with a lower id, counted up to most. Ahead reads an index
	// that begins with status and target, and meets no row twice: for each target it looks at no more
	// rows than most + 1, and one more for each waiter.
	Ahead(ctx context.Context, waiters []Waiter, most int) (map[int64]Counted, error)
}

// ErrNoSchedules says that rows of a table don't recur.
var ErrNoSchedules = errors.New("rows do not recur here: use_columns does not name " + ColumnSchedule)

// ErrNoDelays says that rows of a table don't come later.
var ErrNoDelays = errors.New("rows are not delayed here: the key use_columns does not name " + ColumnRunAt)

// Timekeeper is the part of a Table that tells people what rows say about time. It locks nothing,
// waits for no lock, reads what is committed, and asks the table nothing where the configuration
// names none of the columns.
type Timekeeper interface {
	// Recurring gives rows of these targets that have a schedule and are not at their end, with
	// their plans, in the order of their ids: those with a higher id than after, so many at most. By
	// an index on the schedule it reads the entries of all that recur, and the rows that it gives; else all
	// rows of the targets that wait, are delayed or under way; the server gives up after some seconds.
	// Where rows don't recur at all, its error is ErrNoSchedules.
	Recurring(ctx context.Context, targets []string, after int64, limit int) ([]*Seen, error)

	// CountDue counts the delayed rows of a target that are due, and that became so before a time
	// (unix seconds; 0: whenever), up to a limit.
	CountDue(ctx context.Context, target string, before int64, most int) (Counted, error)
}

// Counted is how many rows wait for a target.
type Counted struct {
	Rows   int
	More   bool  // there are more
	Oldest int64 // time_created of the row with the lowest id, in unix seconds; 0: none waits, or it does not say
}

// UpTo is what is told of rows that were counted one beyond a limit.
func (c Counted) UpTo(most int) Counted {
	c.More = c.Rows > most
	c.Rows = min(c.Rows, most)
	return c
}

// AnotherServer is the error of a claim that reached a server whose rows have not been compared
// with the journal yet: it may have lost what was committed elsewhere. Nothing was decided. The
// table is not away.
type AnotherServer struct {
	Reached   string // the server's identity
	Confirmed string // the identity that claims are made on; "" where none was confirmed yet
}

// Error implements error.
func (e *AnotherServer) Error() string {
	if e.Confirmed == "" {
		return "server " + e.Reached + ": its rows are compared with the journal first"
	}
	return "server " + e.Reached + " answers instead of " + e.Confirmed + ": its rows are compared with the journal first"
}

// Away tells that the table can be reached.
func (e *AnotherServer) Away() bool { return false }

// Passing tells that nothing is wrong: no server was confirmed since the worker has started, which the
// mirror does with the first of them.
func (e *AnotherServer) Passing() bool { return e.Confirmed == "" }

// Undone tells that nothing of the claim was committed.
func (e *AnotherServer) Undone() bool { return true }

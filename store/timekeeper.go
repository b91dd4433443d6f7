package store

import (
	"context"
	"errors"

	"jobd/journal"
)

// ErrNoSchedules says that rows of a table don't recur.
var ErrNoSchedules = errors.New("rows do not recur here: use_columns does not name " + ColumnSchedule)

// ErrNoDelays says that rows of a table don't come later.
var ErrNoDelays = errors.New("rows are not delayed here: the key use_columns does not name " + ColumnRunAt)

// Timekeeper is the part of a Table that tells people what rows say about time. It locks nothing,
// waits for no lock, reads what is committed, and asks the table nothing where the configuration
// names none of the columns.
type Timekeeper interface {
	// Recurring gives rows of these targets that have a schedule and are not at their end, with
	// their plans, in the order of their ids: those with a higher id than after, so many at most. It
	// reads all rows of the targets that wait, are delayed or under way, by the index that claims
	// use, or those with a schedule by an index on that; the server gives up after some seconds.
	// Where rows don't recur at all, its error is ErrNoSchedules.
	Recurring(ctx context.Context, targets []string, after int64, limit int) ([]*Seen, error)

	// Delayed gives delayed rows of these targets, with their plans, in the order in which they are
	// due: so many at most. It reads that many entries of an index for each target. Where rows are not
	// delayed at all, its error is ErrNoDelays.
	Delayed(ctx context.Context, targets []string, limit int) ([]*Seen, error)

	// Plans gives what the rows that exist say about time, by job.
	Plans(ctx context.Context, ids []int64) (map[int64]*journal.Plan, error)

	// CountDue counts the delayed rows of a target that are due, and that became so before a time
	// (unix seconds; 0: whenever), up to a limit.
	CountDue(ctx context.Context, target string, before int64, most int) (Counted, error)
}

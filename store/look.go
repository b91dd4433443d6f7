package store

import (
	"context"

	"jobd/journal"
)

// Seen is a row as somebody who only looks finds it.
type Seen struct {
	journal.Row
	Created  int64  // time_created, unix seconds; 0 where it is NULL or no number
	Started  int64  // time_started, unix seconds; 0 for none
	Finished int64  // time_finished, unix seconds; 0 for none
	Result   string // "" where it is NULL
	Code     *int64 // return_code; nil where it is NULL or no number
	Signal   string // sig of a row that is done; "" where it is NULL
}

// Looker is the part of a Table that reads without a lock, so that nobody waits for it: what it
// finds may be about to change. Its errors are the table's.
type Looker interface {
	// Look gives the rows that exist, by job.
	Look(ctx context.Context, ids []int64) (map[int64]*Seen, error)
}

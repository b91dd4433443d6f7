package store

import "context"

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

// Waiter is a row of which is to be known how many wait before it.
type Waiter struct {
	Job    int64
	Target string // as the row says
}

// Ahead is how many rows of status waiting a claim takes before one: those of its target with a
// lower id.
type Ahead struct {
	Rows int
	More bool // there are more than Rows
}

// Explainer is the part of a Table that tells people about rows. It locks nothing, waits for no
// lock, and reads what is committed.
type Explainer interface {
	// Details gives the rows that exist, by job, each with up to so many bytes of the end of its
	// output.
	Details(ctx context.Context, ids []int64, targets []string, tail int) (map[int64]*Detail, error)

	// Ahead tells how many rows wait before each of these, whatever their own status is, counted up
	// to most. It goes along an index that begins with status and target, and meets no row twice:
	// for each target it looks at most + 1 rows at most, and one more for each waiter.
	Ahead(ctx context.Context, waiters []Waiter, most int) (map[int64]Ahead, error)
}

package journal

// Row is what the jobs table said of one job at the moment somebody looked.
// It is the vocabulary that a claim is decided with, and what a Conflict found.
type Row struct {
	Job    int64  `json:"-"`
	Target string `json:"target"`
	Status string `json:"status"` // waiting, manual, accepted, running, done, ignored or delayed
	Owner  string `json:"owner"`  // the owner column's content; "" where it is NULL or empty

	// Finished and Result are time_finished, in seconds since 1970, and result of a row that was read
	// under a lock; 0 and "" where there is none.
	Finished int64  `json:"-"`
	Result   string `json:"-"`

	// Created is time_created of a row that a claim has locked, in seconds since 1970; 0 where the
	// column tells no such number, or the row was read for something else.
	Created int64 `json:"-"`

	// Plan is what the row says about time; nil where the table uses no such columns.
	Plan *Plan `json:"-"`
}

// WantedRetried is the Wanted of a Conflict that takes a Retried back.
const WantedRetried = "retried"

// The words of the table's status column.
const (
	RowWaiting  = "waiting"
	RowManual   = "manual"
	RowAccepted = "accepted"
	RowRunning  = "running"
	RowDone     = "done"
	RowIgnored  = "ignored"
	RowDelayed  = "delayed" // not before its time; only where the configuration uses such columns
)

package api

import (
	jobnet "jobd/net"
	"jobd/net/principal"
)

// Explain asks a worker all that it knows of some jobs. It changes nothing.
var Explain = declare[ExplainQuery, Explained](Kind{Name: "explain", scope: principal.Read, Slow: true, Relayed: true}, readExplain)

// MostExplained is how many jobs one request may be about.
const MostExplained = 100

// ExplainQuery is the data of explain.
type ExplainQuery struct {
	IDs    []jobnet.Whole `json:"ids"`
	Output bool           `json:"output,omitempty"` // with the end of what the jobs wrote
}

func readExplain(r *reader) ExplainQuery {
	return ExplainQuery{IDs: r.someIDs(MostExplained), Output: r.Flag("output")}
}

// Explained is the answer to explain. Times are unix milliseconds.
type Explained struct {
	Name     string         `json:"name"`           // the worker's
	Mark     string         `json:"mark,omitempty"` // the worker id that its claims bear
	Database *Standing      `json:"database,omitempty"`
	Table    string         `json:"table,omitempty"`   // why the table could not be read: no job has a row here then
	Targets  []string       `json:"targets,omitempty"` // that it serves, a hundred at most
	Jobs     []ExplainedJob `json:"jobs"`              // in the order of the ids
}

// ExplainedJob is what a worker knows of one job.
type ExplainedJob struct {
	Job jobnet.Whole `json:"job"`
	Row *JobRow      `json:"row,omitempty"` // nil: there is none, or the table could not be read
	// Target: of the row's target, or else of the one that it was claimed for here; nil: not served
	// here.
	Target      *TargetStanding `json:"target,omitempty"`
	Ahead       *JobsAhead      `json:"ahead,omitempty"` // of a row that waits, where that could be counted
	Here        *JobStanding    `json:"here,omitempty"`  // nil: it is not under way on this worker
	Quarantined *QuarantinedJob `json:"aside,omitempty"`
	Journal     *JobHistory     `json:"journal,omitempty"`      // nil: the journal tells nothing of it
	Unread      string          `json:"journalError,omitempty"` // why the journal could not be asked
}

// JobRow is a row as it stands. Times are unix seconds, as the table has them; what is NULL or none
// is left out.
type JobRow struct {
	Target   string  `json:"target"`
	Status   string  `json:"status"`
	Owner    string  `json:"owner,omitempty"` // the column with the tokens of claims
	Created  int64   `json:"created,omitempty"`
	Started  int64   `json:"started,omitempty"`
	Finished int64   `json:"finished,omitempty"`
	Result   string  `json:"result,omitempty"`
	Code     *int64  `json:"code,omitempty"` // return_code
	Sig      string  `json:"sig,omitempty"`
	Stdout   JobText `json:"stdout"`
	Stderr   JobText `json:"stderr"`

	Plan *RowPlan `json:"plan,omitempty"` // what it says about time; nil where nothing is used of that
}

// RowPlan is what a row says about time, and what follows from that. Times are unix seconds.
type RowPlan struct {
	RunAt       int64  `json:"run_at,omitempty"`
	PlannedAt   int64  `json:"planned_at,omitempty"`
	Attempts    int64  `json:"attempts,omitempty"`
	MaxAttempts int64  `json:"max_attempts,omitempty"` // starts of a run in all: the row's own, or else its target's
	Timeout     int64  `json:"timeout,omitempty"`      // seconds
	Schedule    string `json:"schedule,omitempty"`
	Zone        string `json:"time_zone,omitempty"`

	In   string `json:"in,omitempty"`   // the zone in which the schedule is read: the row's, or else the worker's
	Next int64  `json:"next,omitempty"` // the next planned start, behind the run that is due or under way
	Bad  string `json:"bad,omitempty"`  // why schedule or zone can't be read
	Due  bool   `json:"due,omitempty"`  // of a delayed row: it is, by the clock of the table's server
	Now  int64  `json:"now,omitempty"`  // what that clock says; workers of older versions do not tell
}

// JobText is what a column of output holds.
type JobText struct {
	Size int64  `json:"size"`           // bytes
	Tail string `json:"tail,omitempty"` // its end, where that was asked for
}

// JobsAhead is how many rows of its target wait before a row.
type JobsAhead struct {
	Rows int  `json:"rows"`
	More bool `json:"more,omitempty"` // there are more than Rows
}

// TargetStanding is how a target stands on a worker.
type TargetStanding struct {
	Name        string `json:"name"` // as the worker has it; the table takes the row's for the same
	Paused      bool   `json:"paused,omitempty"`
	PausedSince int64  `json:"pausedSince,omitempty"`
	PausedBy    string `json:"pausedBy,omitempty"`
	Concurrency int    `json:"concurrency"`
	Room        int    `json:"room,omitempty"`     // how many more jobs it would claim
	Hindered    string `json:"hindered,omitempty"` // why the worker claims nothing for it: a word of exec.Hindering
	Why         string `json:"why,omitempty"`      // the same in words
	Since       int64  `json:"since,omitempty"`    // since when, where that is known
	Looks       bool   `json:"looks,omitempty"`    // a look at the table is due or under way
	Interval    int64  `json:"interval,omitempty"` // how often it looks unasked, in milliseconds; 0: never
}

// The words for where a job stands on a worker.
const (
	StandsQueued   = "queued"   // claimed, and waits for a slot
	StandsClaimed  = "claimed"  // has a slot; its row is about to say running
	StandsStarting = "starting" // its process was asked for
	StandsRunning  = "running"
	StandsEnded    = "ended"    // and that is not in the table yet
	StandsRenewing = "renewing" // its start did not happen, and is tried again
	StandsLeaving  = "leaving"  // it is given back
	StandsInDoubt  = "in doubt" // it is not known whether its claim was won
)

// JobStanding is where a job stands on the worker that has it.
type JobStanding struct {
	Phase    string `json:"phase"`            // one of the words above
	Target   string `json:"target,omitempty"` // that it was claimed for
	Before   int    `json:"before,omitempty"` // jobs that wait before it for a slot here
	Since    int64  `json:"since,omitempty"`  // of its claim, or of its start
	Attempt  int    `json:"attempt,omitempty"`
	PID      int    `json:"pid,omitempty"`
	Reason   string `json:"reason,omitempty"`   // why it is given back, or started again; what a start waits for
	Ignoring bool   `json:"ignoring,omitempty"` // in doubt is whether its row was ignored
	Adopted  bool   `json:"adopted,omitempty"`  // its runner is gone: how it ends nobody will know

	MaxAttempts int   `json:"maxAttempts,omitempty"` // how often the run may be started in all; 0: once, or not told
	Deadline    int64 `json:"deadline,omitempty"`    // when it is ended because it has run too long
}

// QuarantinedJob is why a row can't be claimed or updated by a worker for now.
type QuarantinedJob struct {
	Wanted string `json:"wanted,omitempty"` // the status that the row should get; "" where a claim wants it
	Reason string `json:"reason"`
	Since  int64  `json:"since,omitempty"`
}

// JobHistory is what a worker's journal says of a job since it was claimed last.
type JobHistory struct {
	Status  string    `json:"status"` // as of journal-state
	Last    string    `json:"last"`   // the kind of the newest event
	At      int64     `json:"at"`     // when that was
	By      string    `json:"by,omitempty"`
	Token   string    `json:"token,omitempty"`
	Claimed int64     `json:"claimed,omitempty"`
	Ended   int64     `json:"ended,omitempty"`
	Lost    bool      `json:"lost,omitempty"` // somebody else changed its row while it ran
	Result  string    `json:"result,omitempty"`
	Code    *int      `json:"code,omitempty"`
	Signal  string    `json:"signal,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Ran     int64     `json:"ran,omitempty"`   // microseconds, where they were measured
	Found   *FoundRow `json:"found,omitempty"` // of a conflict: what the row held instead

	Cancelled   int64  `json:"cancelled,omitempty"` // when somebody wanted it to end
	CancelledBy string `json:"cancelledBy,omitempty"`

	Timeout int64 `json:"timeout,omitempty"` // it was ended because it ran longer than so many seconds
	WasDue  int64 `json:"wasDue,omitempty"`  // of a row that was planned anew: when it was due before, unix seconds
}

// FoundRow is what a worker met in a row that somebody else had changed.
type FoundRow struct {
	Status string `json:"status"`
	Owner  string `json:"owner,omitempty"`
}

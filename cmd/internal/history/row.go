package history

import (
	"time"

	"jobd/journal"
	jobnet "jobd/net"
)

// Row is what the table says of a job, or should say.
type Row struct {
	Job      jobnet.Whole `json:"job"`
	Target   string       `json:"target,omitempty"`
	Status   string       `json:"status"`
	Owner    string       `json:"owner,omitempty"`    // the owner column; "" where it is NULL or empty
	Started  int64        `json:"started,omitempty"`  // unix seconds
	Finished int64        `json:"finished,omitempty"` // unix seconds
	Result   string       `json:"result,omitempty"`
	Code     *int64       `json:"code,omitempty"`   // return_code
	Signal   string       `json:"signal,omitempty"` // sig of a row that is done

	Plan *journal.Plan `json:"plan,omitempty"` // what it says about time; nil where nothing is used of that
}

// RowsAnswer is the answer to journal-rows: the rows that there are.
type RowsAnswer struct {
	Rows []Row `json:"rows"`
}

// Difference is an item of the stream of journal-diff: a row that does not say what the journal says.
type Difference struct {
	Job   jobnet.Whole `json:"job"`
	Want  *Row         `json:"want"`  // what the journal says; nil: that the row is not the worker's
	Found *Row         `json:"found"` // what the table says; nil: there is no such row
	Cause string       `json:"cause"` // a reconcile.Cause: owed, changed or other

	Reason string `json:"reason,omitempty"` // in words, where the cause does not say it all
}

// DiffQuery is the data of journal-diff.
type DiffQuery struct {
	IgnoreDeleted bool `json:"ignore_deleted,omitempty"` // rows that were pruned are no difference
}

// Selects tells whether a difference is one.
func (q DiffQuery) Selects(d Difference) bool { return !q.IgnoreDeleted || !d.pruned() }

// pruned tells of a row that is gone, as its job needs it no more: it has ended.
func (d Difference) pruned() bool {
	return d.Found == nil && d.Want != nil && (d.Want.Status == journal.RowDone || d.Want.Status == journal.RowIgnored)
}

// CauseChanged is the cause of a row that somebody else changed, or that is gone.
const CauseChanged = "changed"

// ReapplyQuery is the data of journal-reapply.
type ReapplyQuery struct {
	Since  time.Time `json:"since,omitzero"` // only jobs to which something happened from this time on
	DryRun bool      `json:"dry_run,omitempty"`

	// Retried are jobs that were retried, as other workers' journals say: the row's time_finished then, in
	// unix seconds. An end that is not later is not brought back.
	Retried map[int64]int64 `json:"retried,omitempty"`

	// AcceptUnknown goes on although rows wait of which the journal can't tell whether they have run.
	AcceptUnknown bool `json:"accept_unknown,omitempty"`
	// Journal is a folder on the worker's machine: the journal of a lost worker, which is reapplied instead of the worker's own.
	Journal string `json:"journal,omitempty"`

	// Unknown asks, instead, for the rows that wait and of which the journal can't tell; the stream is of Unknown then. Among
	// narrows it to these, whenever they were created.
	Unknown bool    `json:"unknown,omitempty"`
	Among   []int64 `json:"among,omitempty"`
}

// Unknown is an item of the stream of rows of which a journal can't tell whether they have run. There is always one.
type Unknown struct {
	Name    string    `json:"name"`              // the worker whose journal it is
	Begins  time.Time `json:"begins,omitzero"`   // when the history begins; zero: it goes back far enough
	Removed bool      `json:"removed,omitempty"` // retention has removed what was before
	Rows    []int64   `json:"rows,omitempty"`    // that were created before, wait, and are not in the history
}

// Reapplied is an item of the stream of journal-reapply: what was done with a row. Rows that
// agree with the journal are not among them.
type Reapplied struct {
	Job    jobnet.Whole `json:"job"`
	Found  *Row         `json:"found"` // what the table said
	Want   *Row         `json:"want"`  // what the journal says
	Did    string       `json:"did"`   // DidApply, DidRefuse, or, in a dry run, would apply
	Reason string       `json:"reason,omitempty"`

	Journal string `json:"journal,omitempty"` // the lost worker whose journal says so; "" where it is the worker's own
}

// What reapply has done with a row that does not say what the journal says.
const (
	DidApply  = "applied"
	DidRefuse = "refused"
)

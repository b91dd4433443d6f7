package history

import (
	"context"
	"iter"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	jobnet "jobd/net"
)

// AtQuery selects jobs by how they stood at a time. In its JSON form it is the data of journal-state.
type AtQuery struct {
	At     time.Time      `json:"at,omitzero"` // the zero time: now
	Status journal.Status `json:"status,omitempty"`
	Target string         `json:"target,omitempty"`
	Job    jobnet.Whole   `json:"job,omitempty"` // only this one
	// Has tells which targets those have who ask; nil: all.
	Has   func(target string) bool `json:"-"`
	Since time.Time                `json:"since,omitzero"` // only those that came into their status from then on
	Last  int                      `json:"last,omitempty"` // only the last ones in the order of Before; 0, or more than 10,000: all

	// UnderWay selects, instead, the jobs that were under way just before At; the zero time: where the history begins.
	UnderWay bool `json:"under_way,omitempty"`
}

// Job is a job's state in its form on the wire, and as jobctl prints it.
type Job struct {
	Job      jobnet.Whole   `json:"job"`
	Target   string         `json:"target"`
	Manual   bool           `json:"manual"`
	Status   journal.Status `json:"status"`
	Token    string         `json:"token,omitempty"`
	Result   string         `json:"result,omitempty"`
	Code     *int           `json:"code,omitempty"`
	Signal   string         `json:"signal,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Attempt  int            `json:"attempt"`
	Accepted time.Time      `json:"accepted,omitzero"`
	Running  time.Time      `json:"running,omitzero"`
	Ended    time.Time      `json:"ended,omitzero"`

	Planned int64          `json:"planned_at,omitempty"` // the planned start of the run, in unix seconds
	Again   *journal.Again `json:"again,omitempty"`      // the row comes back, and when
	Timeout int64          `json:"timeout,omitempty"`    // of the newest start, in seconds
	Recurs  string         `json:"schedule,omitempty"`   // the claim's
}

// mostLast bounds what is held of a stream of which only the end is wanted.
const mostLast = 10_000

// Selects tells whether a job is the one, of the status and the target, and came into its status late enough.
func (q AtQuery) Selects(job Job) bool {
	return (q.Status == "" || job.Status == q.Status) && (q.Target == "" || job.Target == q.Target) && (q.Job == 0 || job.Job == q.Job) && (q.Has == nil || q.Has(job.Target)) &&
		(q.Since.IsZero() || !job.Changed().Before(q.Since))
}

// Behind is the first moment behind a time, as a journal tells them apart.
func Behind(at time.Time) time.Time { return at.Truncate(time.Microsecond).Add(time.Microsecond) }

// Changed is when a job came into its status: it ended, was about to run, or was claimed.
func (j Job) Changed() time.Time {
	for _, at := range []time.Time{j.Ended, j.Running} {
		if !at.IsZero() {
			return at
		}
	}
	return j.Accepted
}

// jobOf is the form of a job.
func jobOf(j journal.Job) Job {
	told := Job{
		Job: jobnet.Whole(j.ID), Target: j.Target, Manual: j.Manual, Status: j.Status, Token: j.Token,
		Result: j.Result, Code: j.Code, Signal: j.Signal, Reason: j.Reason,
		Attempt: j.Attempt, Accepted: j.Accepted.Time, Running: j.Running.Time, Ended: j.Ended,
		Planned: j.PlannedAt, Again: j.Again, Timeout: j.Timeout,
	}
	if j.Plan != nil {
		told.Recurs = j.Plan.Schedule
	}
	return told
}

// Before is the order of Jobs: first those at their end, by when they ended, then the others, by id.
func (j Job) Before(other Job) bool {
	switch {
	case j.Ended.IsZero() && other.Ended.IsZero():
		return j.Job < other.Job
	case j.Ended.IsZero() || other.Ended.IsZero():
		return other.Ended.IsZero()
	}
	return j.Ended.Before(other.Ended)
}

// Jobs gives the jobs that are selected as they stood at the time. It ends at the first error.
func Jobs(ctx context.Context, r *replay.Reader, q AtQuery) iter.Seq2[Job, error] {
	if q.UnderWay {
		return underWay(ctx, r, q)
	}
	selected := func(yield func(Job, error) bool) {
		for state, err := range r.Jobs(ctx, q.At) {
			job := jobOf(state)
			if err == nil && !q.Selects(job) {
				continue
			}
			if !yield(job, err) || err != nil {
				return
			}
		}
	}
	if q.Last <= 0 || q.Last > mostLast {
		return selected
	}
	return Newest(selected, q.Last)
}

// Newest gives the last n of a sequence, of which it holds no more than twice as many.
func Newest[T any](all iter.Seq2[T, error], n int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last []T
		for item, err := range all {
			if err != nil {
				yield(item, err)
				return
			}
			if last = append(last, item); len(last) >= 2*n {
				last = append(last[:0], last[len(last)-n:]...)
			}
		}
		for _, item := range last[max(0, len(last)-n):] {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// underWay gives the jobs that were under way just before a time.
func underWay(ctx context.Context, r *replay.Reader, q AtQuery) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		jobs, err := r.UnderWay(ctx, q.At)
		if err != nil {
			yield(Job{}, err)
			return
		}
		for _, job := range jobs {
			if (q.Has == nil || q.Has(job.Target)) && !yield(jobOf(job), nil) {
				return
			}
		}
	}
}

// Statuses lists what a job that the journal mentions may be.
func Statuses() []journal.Status {
	return []journal.Status{
		journal.StatusAccepted, journal.StatusStarting, journal.StatusRunning, journal.StatusDone,
		journal.StatusReleased, journal.StatusIgnored, journal.StatusRetried, journal.StatusPlanned, journal.StatusConflict,
	}
}

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
	Removed bool      `json:"removed,omitempty"` // retention has removed earlier events
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

package api

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	jobnet "jobd/net"
	"jobd/net/principal"
)

// What operators ask of workers. A master hands these on, as it does the requests about journals:
// to all its workers, or to the one that the field worker names, by its name or address; its answer
// is Relayed. What only one worker may do must name it.
var (
	Running = declare[RunningQuery, RunningJobs](Kind{Name: "running", scope: principal.Read, Relayed: true}, readRunning)
	Waiting = declare[WaitingQuery, WaitingRows](Kind{Name: "waiting", scope: principal.Status, Slow: true, Relayed: true}, readWaiting)
)

// The orders in which running jobs may be listed.
const (
	SortAge    = "age" // the one that has run longest first
	SortCPU    = "cpu"
	SortMemory = "memory"
)

// RunningQuery is the data of running.
type RunningQuery struct {
	Targets []string `json:"targets,omitempty"` // none: all
	Sort    string   `json:"sort,omitempty"`    // SortAge if not given
	Most    int      `json:"most,omitempty"`    // how many jobs are listed, the first of that order; 0: up to MostRunning
}

// MostRunning is how many jobs an answer lists at most.
const MostRunning = 10_000

func readRunning(r *reader) RunningQuery {
	q := RunningQuery{Targets: r.anyTargets(longestTarget), Sort: r.textOr("sort", SortAge), Most: r.most(MostRunning)}
	switch q.Sort {
	case SortAge, SortCPU, SortMemory:
	default:
		r.refuse("sort %q is not allowed; allowed: %s, %s and %s", jobnet.Excerpt(q.Sort), SortAge, SortCPU, SortMemory)
	}
	return q
}

// RunningJobs is the answer to running.
type RunningJobs struct {
	Jobs  []RunningJob `json:"jobs"`
	Total int          `json:"total"` // how many run, listed or not
}

// RunningJob is a job that has been started. What is not known is 0 or nil.
type RunningJob struct {
	Job       jobnet.Whole `json:"job"`
	Target    string       `json:"target"`
	Manual    bool         `json:"manual,omitempty"`
	Attempt   int          `json:"attempt"`
	PID       int          `json:"pid,omitempty"`      // its process group's, too; 0 of a request
	Executor  string       `json:"executor,omitempty"` // fork, pool, http, fastcgi, gearman; "": its own process
	Address   string       `json:"address,omitempty"`  // of a request: where it was sent
	Since     int64        `json:"since"`              // unix milliseconds of its start, by its worker's clock
	Elapsed   *int64       `json:"elapsed,omitempty"`  // for how many milliseconds it has run, whatever clocks say
	CPU       *int64       `json:"cpu,omitempty"`      // milliseconds of processor time of its process group
	Memory    *int64       `json:"memory,omitempty"`   // resident bytes of its process group
	Processes int          `json:"processes,omitempty"`
	Cancelled bool         `json:"cancelled,omitempty"` // somebody wants it to end
	Adopted   bool         `json:"adopted,omitempty"`   // its runner is gone: how it ends nobody will know

	MaxAttempts int   `json:"maxAttempts,omitempty"` // how often the run may be started in all; 0: once, or not told
	Planned     int64 `json:"plannedAt,omitempty"`   // the planned start of the run, unix seconds
	Deadline    int64 `json:"deadline,omitempty"`    // when it is ended because it has run too long, unix milliseconds
	Recurs      bool  `json:"recurs,omitempty"`
}

// WaitingQuery is the data of waiting.
type WaitingQuery struct {
	Targets []string `json:"targets,omitempty"` // none: all that the worker serves
	Most    int      `json:"most,omitempty"`    // how far rows of each are counted; 0: up to MostCounted. Older workers count so far always
	Others  bool     `json:"others,omitempty"`  // also of other targets for which rows wait; older workers do not tell of those
}

func readWaiting(r *reader) WaitingQuery {
	return WaitingQuery{Targets: r.anyTargets(longestTarget), Most: r.most(MostCounted), Others: r.Flag("others")}
}

// WaitingRows is the answer to waiting: what the table has of each target.
type WaitingRows struct {
	Targets map[string]WaitingTarget `json:"targets"`
}

// MostCounted is how far waiting rows are counted.
const MostCounted = 10_000

// WaitingTarget is what waits for a target.
type WaitingTarget struct {
	Count int  `json:"count"`          // rows of status waiting, counted up to MostCounted
	More  bool `json:"more,omitempty"` // there are more than Count
	// Oldest: time_created of the row with the lowest id, unix seconds; 0: none, or it does not say.
	Oldest int64  `json:"oldest,omitempty"`
	Error  string `json:"error,omitempty"` // why they can't be counted

	Due     int   `json:"due,omitempty"`     // delayed rows that are due, counted up to MostCounted
	DueMore bool  `json:"dueMore,omitempty"` // there are more than Due
	NextDue int64 `json:"nextDue,omitempty"` // when the next delayed row is due, or was, unix seconds; 0: there is none
	Now     int64 `json:"now,omitempty"`     // what the clock says by which it is due; workers of older versions do not tell
}

// Unfinished lists the jobs of a target that wait or run: those that the worker has, and the rows that
// nobody has claimed, delayed ones once they are due.
var Unfinished = declare[UnfinishedQuery, UnfinishedJobs](Kind{Name: "unfinished", scope: principal.Read, Slow: true, Relayed: true}, readUnfinished)

// UnfinishedQuery is the data of unfinished.
type UnfinishedQuery struct {
	Target  string `json:"target"`
	Waiting bool   `json:"waiting,omitempty"` // only those that have not been started
}

func readUnfinished(r *reader) UnfinishedQuery {
	return UnfinishedQuery{Waiting: r.Flag("waiting"), Target: r.target()}
}

// UnfinishedJobs is the answer to unfinished.
type UnfinishedJobs struct {
	Jobs []jobnet.Whole `json:"jobs"`           // MostCancelled rows at most beside what the worker has
	More bool           `json:"more,omitempty"` // there are more rows
}

// Cancel has jobs not run: what has not started is ignored, what runs gets SIGTERM and later
// SIGKILL. A worker does it to the jobs that it has; with Rows also to rows that nobody has claimed,
// whatever their target, for which one worker is enough.
var Cancel = declare[CancelQuery, CancelAnswer](Kind{Name: "cancel", scope: principal.Run, Changes: true, Slow: true, Relayed: true}, readCancel)

// The bounds of a cancel.
const (
	MostCancelled = 10_000         // jobs
	DefaultGrace  = 10_000         // milliseconds
	LongestGrace  = 24 * 3_600_000 // milliseconds
)

// CancelQuery is the data of cancel.
type CancelQuery struct {
	IDs     []jobnet.Whole          `json:"ids"`
	Targets map[jobnet.Whole]string `json:"targets,omitempty"` // of some of them: a job of another target is left alone
	Grace   *int64                  `json:"grace,omitempty"`   // milliseconds from SIGTERM to SIGKILL; nil: DefaultGrace
	Rows    bool                    `json:"rows,omitempty"`    // rows too that nobody has claimed

	// Schedule ends rows that recur, whether a run of them is under way or not. Without it only that run
	// ends. Workers of older versions always end both.
	Schedule bool `json:"schedule,omitempty"`
}

func readCancel(r *reader) CancelQuery {
	q := CancelQuery{IDs: r.ids(MostCancelled), Rows: r.Flag("rows"), Schedule: r.Flag("schedule")}
	grace := r.within("grace", 0, LongestGrace, DefaultGrace)
	q.Grace = &grace
	q.Targets = r.textsByID("targets", MostCancelled)
	return q
}

// What became of a job that was cancelled.
const (
	CancelIgnored    = "ignored"    // it has not run and never will
	CancelCancelling = "cancelling" // it runs, got SIGTERM, and gets SIGKILL when the grace is over
	CancelDone       = "done"       // it ran before, and is not run again: it is done, and has failed
)

// CancelAnswer is the answer to cancel: each job is in one part at most. One that is in none is not
// this worker's; rows that nobody has claimed were not asked for then.
type CancelAnswer struct {
	Jobs      map[jobnet.Whole]CancelledJob `json:"jobs,omitempty"`
	Errors    map[jobnet.Whole]string       `json:"errors,omitempty"`    // why they were not cancelled
	Elsewhere map[jobnet.Whole]ClaimedRow   `json:"elsewhere,omitempty"` // a worker has them: ask that one
}

// CancelledJob is a job that was cancelled.
type CancelledJob struct {
	State  string `json:"state"`
	Target string `json:"target"`
	// Before: of one that runs: somebody has cancelled it before, and nothing was changed.
	Before bool   `json:"before,omitempty"`
	By     string `json:"by,omitempty"`    // who that was, or is
	Grace  int64  `json:"grace,omitempty"` // of one that runs: milliseconds
	Kill   int64  `json:"kill,omitempty"`  // of one that runs: unix milliseconds of its SIGKILL
	Next   int64  `json:"next,omitempty"`  // of one that runs and recurs: when it runs next, in unix seconds
}

// ClaimedRow is what the row says of a job that a worker has.
type ClaimedRow struct {
	Status string `json:"status"`
	Owner  string `json:"owner"` // the token of its claim, by which journals know the worker; "" where it has none
	Target string `json:"target"`
}

// Retry sets rows that are done or ignored back, to be run once more. A master hands it to the one
// worker that it names.
var Retry = declare[RetryRows, RetriedRows](Kind{Name: "retry", scope: principal.Run, Changes: true, Slow: true, OneWorker: true}, readRetry)

// mostRetries is how many rows one request may set back.
const mostRetries = 10_000

// RetryRows is the data of retry.
type RetryRows struct {
	IDs []jobnet.Whole `json:"ids"`
	// Finished: only while the row's time_finished is this, in unix seconds.
	Finished map[jobnet.Whole]int64 `json:"finished,omitempty"`
	// To: waiting or manual; for others the worker's journal tells which, else it is waiting.
	To map[jobnet.Whole]string `json:"to,omitempty"`
}

func readRetry(r *reader) RetryRows {
	rows := RetryRows{IDs: r.ids(mostRetries)}
	rows.Finished = byID(r, "finished", mostRetries, func(id jobnet.Whole, value json.RawMessage) int64 {
		at, whole := jobnet.Integer(value)
		if !whole {
			r.refuse("finished: job %d: a time must be a whole number of seconds", id)
		}
		return at
	})
	rows.To = r.textsByID("to", mostRetries)
	for id, to := range rows.To {
		if to != "waiting" && to != "manual" {
			r.refuse("to: job %d: allowed: waiting and manual", id)
		}
	}
	return rows
}

// RetriedRows is the answer to retry: each job is in one of its parts.
type RetriedRows struct {
	Jobs   map[jobnet.Whole]string `json:"jobs,omitempty"`   // what its row is set back to: waiting or manual
	Errors map[jobnet.Whole]string `json:"errors,omitempty"` // why it is as it was
}

// SortRunning puts running jobs into one of the orders. What is not known comes last, and those
// that are alike come by age. The function of gives the job of what is sorted.
func SortRunning[T any](jobs []T, order string, of func(*T) *RunningJob) {
	slices.SortFunc(jobs, func(one, other T) int {
		a, b, first := of(&one), of(&other), 0
		switch order {
		case SortCPU:
			first = cmp.Compare(known(b.CPU), known(a.CPU))
		case SortMemory:
			first = cmp.Compare(known(b.Memory), known(a.Memory))
		}
		return cmp.Or(first, cmp.Compare(a.Since, b.Since), cmp.Compare(a.Job, b.Job))
	})
}

// known is a number, or less than any where it is not known.
func known(number *int64) int64 {
	if number == nil {
		return -1
	}
	return *number
}

// Output asks for a part of what a job has written: of one that runs as it comes, of one that has
// ended what was kept. It may have to read the journal.
var Output = declare[OutputQuery, JobOutput](Kind{Name: "output", scope: principal.Read, Slow: true, Relayed: true}, readOutput)

// MostOutput is how many bytes of each stream one answer has at most.
const MostOutput = 64 << 10

// OutputQuery is the data of output. The offsets are those of the first byte wanted; below 0: so
// far before the newest one that is kept.
type OutputQuery struct {
	Job     jobnet.Whole `json:"job"`
	Attempt int          `json:"attempt,omitempty"` // 0: the newest
	Stdout  int64        `json:"stdout,omitempty"`
	Stderr  int64        `json:"stderr,omitempty"`
	Most    int          `json:"most,omitempty"` // bytes of each; 0: MostOutput
}

func readOutput(r *reader) (q OutputQuery) {
	if !r.Has("job") {
		r.refuse("'job' is missing: the id of a job")
	}
	return OutputQuery{
		Job: r.id(r.Fields["job"]), Attempt: int(r.within("attempt", 0, mostAttempt, 0)),
		Stdout: r.numberOr("stdout", 0), Stderr: r.numberOr("stderr", 0), Most: r.most(MostOutput),
	}
}

// mostAttempt is more attempts than any job has.
const mostAttempt = 1_000_000_000

// JobOutput is the answer to output.
type JobOutput struct {
	Job     jobnet.Whole `json:"job"`
	Attempt int          `json:"attempt,omitempty"` // 0: the journal does not tell
	State   string       `json:"state"`             // OutputUnknown, OutputClaimed, OutputRunning or OutputEnded
	Running bool         `json:"running"`           // more may come
	Adopted bool         `json:"adopted,omitempty"` // its runner is gone, and nobody reads what it writes
	Stdout  OutputPart   `json:"stdout"`
	Stderr  OutputPart   `json:"stderr"`
	Done    *OutputEnd   `json:"done,omitempty"` // how it ended
}

// Where a job stands of which output is told.
const (
	OutputUnknown = "unknown" // it is not under way here, and the journal knows no end of it
	OutputClaimed = "claimed" // it has not started yet
	OutputRunning = "running"
	OutputEnded   = "ended"
)

// OutputPart is a part of a stream.
type OutputPart struct {
	At      int64  `json:"at"`                // the offset of its first byte, and of the next one wanted where it has none
	Bytes   []byte `json:"bytes,omitempty"`   // as the job wrote them; base64 on the wire
	Size    int64  `json:"size"`              // of all that the job wrote so far
	Skipped int64  `json:"skipped,omitempty"` // bytes before At that were wanted, and not kept
}

// OutputEnd is how a job ended.
type OutputEnd struct {
	Result string  `json:"result"`
	Code   *int    `json:"code"`
	Signal *string `json:"signal"`
	Reason string  `json:"reason,omitempty"` // why, where the process itself does not tell
	Note   string  `json:"note,omitempty"`   // what jobd adds to stderr where people look for it
	Ended  int64   `json:"ended"`            // unix milliseconds
}

// What operators ask about rows that come at a time. What changes such rows a master hands to the one
// worker that it names.
var (
	Recurring = declare[RecurringQuery, RecurringRows](Kind{Name: "recurring", scope: principal.Read, Slow: true, Relayed: true}, readRecurring)

	RunNow           = declare[PlanRows, PlannedRows](Kind{Name: "run-now", scope: principal.Run, Changes: true, Slow: true, OneWorker: true}, readPlanRows)
	PauseSchedule    = declare[PlanRows, PlannedRows](Kind{Name: "pause-schedule", scope: principal.Run, Changes: true, Slow: true, OneWorker: true}, readPlanRows)
	ContinueSchedule = declare[PlanRows, PlannedRows](Kind{Name: "continue-schedule", scope: principal.Run, Changes: true, Slow: true, OneWorker: true}, readPlanRows)
)

// MostRecurring is how many rows one answer lists at most, and MostPlanned how many one request may
// change.
const (
	MostRecurring = 1000
	MostPlanned   = 1000
)

// RecurringQuery is the data of recurring.
type RecurringQuery struct {
	Targets []string      `json:"targets,omitempty"` // none: all that the worker serves
	After   *jobnet.Whole `json:"after,omitempty"`   // only rows with a higher id
	Most    int           `json:"most,omitempty"`    // 0: up to MostRecurring
}

func readRecurring(r *reader) RecurringQuery {
	q := RecurringQuery{Targets: r.anyTargets(longestTarget), Most: r.most(MostRecurring)}
	if r.Has("after") {
		after := r.Whole("after")
		q.After = &after
	}
	return q
}

// Behind is the id behind which rows are wanted.
func (q RecurringQuery) Behind() int64 {
	if q.After == nil {
		return math.MinInt64
	}
	return int64(*q.After)
}

// RecurringRows is the answer to recurring: rows in the order of their ids.
type RecurringRows struct {
	Rows []RecurringRow `json:"rows"`
	More bool           `json:"more,omitempty"` // there may be others behind the last one
}

// RecurringRow is a row with a schedule that is not at its end. Times are unix seconds; what is not
// known, and what is not, is left out.
type RecurringRow struct {
	Job      jobnet.Whole `json:"job"`
	Target   string       `json:"target"`
	Status   string       `json:"status"`
	Schedule string       `json:"schedule"`
	Zone     string       `json:"zone"`             // in which it is read: the row's, or else the worker's
	RunAt    int64        `json:"run_at,omitempty"` // when it is due, of a row that is delayed
	Due      bool         `json:"due,omitempty"`    // it is, by the clock of the table's server
	Paused   bool         `json:"paused,omitempty"` // its schedule is: it is due at no time
	Planned  int64        `json:"planned_at,omitempty"`
	Attempts int64        `json:"attempts,omitempty"` // of the present run
	Next     int64        `json:"next,omitempty"`     // the next planned start, behind the run that is under way; 0: there is none
	Error    string       `json:"error,omitempty"`    // why the schedule or the zone can't be read

	// What the run, or the attempt, has left that ended last.
	Started  int64  `json:"started,omitempty"`
	Finished int64  `json:"finished,omitempty"`
	Result   string `json:"result,omitempty"`
	Code     *int64 `json:"code,omitempty"`
	Signal   string `json:"signal,omitempty"`
}

// PlanRows is the data of run-now, pause-schedule and continue-schedule.
type PlanRows struct {
	IDs []jobnet.Whole `json:"ids"`
}

func readPlanRows(r *reader) PlanRows { return PlanRows{r.someIDs(MostPlanned)} }

// PlannedRows is the answer to them.
type PlannedRows struct {
	Jobs   map[jobnet.Whole]int64  `json:"jobs"`   // that were changed: when they were due before, or, continued, are due now, in unix seconds
	Errors map[jobnet.Whole]string `json:"errors"` // why others are as they were
}

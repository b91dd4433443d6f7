package contract

import (
	"encoding/json"
	"strconv"

	jobnet "jobd/net"
)

// Cancel has jobs not run: what has not started is ignored, what runs gets SIGTERM and later
// SIGKILL. A worker does it to the jobs that it has; with Rows also to rows that nobody has claimed,
// whatever their target, for which one worker is enough.
var Cancel = Request[CancelQuery, CancelAnswer]{Name: "cancel", Changes: true, Slow: true, read: readCancel}

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
}

func readCancel(data jobnet.Fields) (q CancelQuery, err error) {
	if q.IDs, err = readSomeIDs(data, MostCancelled); err != nil {
		return q, err
	}
	grace := int64(DefaultGrace)
	if data.Has("grace") {
		if grace, err = data.Int("grace"); err != nil {
			return q, err
		}
		if grace < 0 || grace > LongestGrace {
			return q, jobnet.Refusef("grace: %d is not allowed; allowed is 0 to %d milliseconds", grace, LongestGrace)
		}
	}
	q.Grace, q.Rows = &grace, data.Flag("rows")
	q.Targets, err = readTargetsOf(data)
	return q, err
}

// readTargetsOf reads the field targets, an object: the target that each of some jobs must be of.
func readTargetsOf(data jobnet.Fields) (map[jobnet.Whole]string, error) {
	if !data.Has("targets") {
		return nil, nil
	}
	fields := jobnet.FieldsOf(data["targets"])
	if err := atMost("targets", len(fields), MostCancelled); err != nil {
		return nil, err
	}
	targets := make(map[jobnet.Whole]string, len(fields))
	for name, value := range fields {
		var target string
		id, err := strconv.ParseInt(name, 10, 64)
		if err != nil || json.Unmarshal(value, &target) != nil {
			return nil, jobnet.Refusef("targets: %s is not allowed; allowed are targets by the ids of jobs", jobnet.Excerpt(name))
		}
		targets[jobnet.Whole(id)] = target
	}
	return targets, nil
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
	Elsewhere map[jobnet.Whole]ClaimedRow   `json:"elsewhere,omitempty"` // a worker has them, which is to be asked
}

// CancelledJob is a job that was cancelled.
type CancelledJob struct {
	State  string `json:"state"`
	Target string `json:"target"`
	Before bool   `json:"before,omitempty"` // of one that runs: somebody has cancelled it before, and nothing was changed
	By     string `json:"by,omitempty"`     // who that was, or is
	Grace  int64  `json:"grace,omitempty"`  // of one that runs: milliseconds
	Kill   int64  `json:"kill,omitempty"`   // of one that runs: unix milliseconds of its SIGKILL
}

// ClaimedRow is what the row says of a job that a worker has.
type ClaimedRow struct {
	Status string `json:"status"`
	Owner  string `json:"owner"` // the token of its claim, by which journals know the worker; "" where it has none
	Target string `json:"target"`
}

package contract

import (
	"encoding/json"

	jobnet "jobd/net"
)

// What operators ask of workers. A master hands these on, as it does the requests about journals:
// to all its workers, or to the one that the field worker names, by its name or address; its answer
// is Relayed. What only one worker may do must name it.
var (
	Running = Request[RunningQuery, RunningJobs]{Name: "running", read: readRunning}
	Waiting = Request[WaitingQuery, WaitingRows]{Name: "waiting", Slow: true, read: readWaiting}
)

// OperatorRequests lists them all, also those whose data a master does not read.
var OperatorRequests = [...]string{
	Running.Name, Waiting.Name, Explain.Name, Output.Name, Cancel.Name, Retry.Name, Recurring.Name, Delayed.Name, RunNow.Name,
}

// OneWorkerOnly tells whether a master takes a request of this type only for a worker that it
// names.
func OneWorkerOnly(typ string) bool { return typ == Retry.Name || typ == RunNow.Name }

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

func readRunning(data jobnet.Fields) (q RunningQuery, err error) {
	t, err := readTargets(data)
	if err != nil {
		return q, err
	}
	q.Targets, q.Sort = t.Targets, SortAge
	if data.Has("sort") {
		if q.Sort, err = data.Text("sort"); err != nil {
			return q, err
		}
	}
	switch q.Sort {
	case SortAge, SortCPU, SortMemory:
	default:
		return q, jobnet.Refusef("sort %q is not allowed; allowed are %s, %s and %s", jobnet.Excerpt(q.Sort), SortAge, SortCPU, SortMemory)
	}
	if q.Most, err = readMost(data, MostRunning); err != nil {
		return q, err
	}
	return q, nil
}

// readMost reads how many items are wanted at most: from 1 to the limit, which stands where nothing
// was said.
func readMost(data jobnet.Fields, limit int) (int, error) {
	if !data.Has("most") {
		return limit, nil
	}
	most, err := data.Int("most")
	if err != nil {
		return 0, err
	}
	if most < 1 || most > int64(limit) {
		return 0, jobnet.Refusef("most: %d is not allowed; allowed is 1 to %d", most, limit)
	}
	return int(most), nil
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
	Executor  string       `json:"executor,omitempty"` // fork, pool, http, fastcgi; "": it has a process of its own
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
}

func readWaiting(data jobnet.Fields) (WaitingQuery, error) {
	t, err := readTargets(data)
	return WaitingQuery{Targets: t.Targets}, err
}

// WaitingRows is the answer to waiting: what the table has of each target.
type WaitingRows struct {
	Targets map[string]WaitingTarget `json:"targets"`
}

// MostCounted is how far waiting rows are counted.
const MostCounted = 10_000

// WaitingTarget is what waits for a target.
type WaitingTarget struct {
	Count  int    `json:"count"`            // rows of status waiting, counted up to MostCounted
	More   bool   `json:"more,omitempty"`   // there are more than Count
	Oldest int64  `json:"oldest,omitempty"` // time_created of the row with the lowest id, unix seconds; 0: none, or it does not say
	Error  string `json:"error,omitempty"`  // why they can't be counted

	Due     int   `json:"due,omitempty"`     // delayed rows that are due, counted up to MostCounted
	DueMore bool  `json:"dueMore,omitempty"` // there are more than Due
	NextDue int64 `json:"nextDue,omitempty"` // when the next delayed row is due, or was, unix seconds; 0: there is none
}

// readSomeIDs reads the required list ids, of which it takes most.
func readSomeIDs(data jobnet.Fields, most int) (ids []jobnet.Whole, err error) {
	err = each(data, "ids", most, func(item json.RawMessage) error {
		id, err := readID(item)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

package api

import (
	"math"

	jobnet "jobd/net"
	"jobd/net/principal"
)

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

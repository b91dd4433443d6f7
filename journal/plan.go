package journal

import "time"

// Plan is what a row says about time, in the columns of that name: as far as the table's
// configuration uses them. What is not used, and what is NULL, is zero.
type Plan struct {
	RunAt       int64  `json:"run_at,omitempty"`       // when a delayed row is due, in seconds since 1970
	PlannedAt   int64  `json:"planned_at,omitempty"`   // the planned start of the run, likewise
	Attempts    int64  `json:"attempts,omitempty"`     // starts of the run so far
	MaxAttempts int64  `json:"max_attempts,omitempty"` // the row's own; 0: as the configuration says
	Timeout     int64  `json:"timeout,omitempty"`      // the row's own, in seconds; 0: as the configuration says
	Schedule    string `json:"schedule,omitempty"`
	Zone        string `json:"time_zone,omitempty"` // the row's own; "": as the configuration says
}

// Due is when delayed rows of some targets are due next, by the clock of the table's server.
type Due struct {
	Now  time.Time        // what that clock said; zero where it was not asked
	Next map[string]int64 // by target, in seconds since 1970; targets without delayed rows are not there
}

// Again says that a row comes back as delayed when its run has ended, and when.
type Again struct {
	RunAt     int64  `json:"run_at"`             // seconds since 1970
	PlannedAt int64  `json:"planned_at"`         // likewise
	Attempts  int64  `json:"attempts,omitempty"` // starts of the run so far; 0 where the next run is another one
	Why       string `json:"why"`                // AgainRetry or AgainSchedule
}

// Why a row comes back.
const (
	AgainRetry    = "retry"    // the run failed, and attempts are left
	AgainSchedule = "schedule" // it recurs
)

// Planned says that a delayed row which was not run is due at another time from now on. It is
// appended inside the transaction that updates the row, before that. Whoever meets the row as it was
// before, because that was not committed, plans it once more.
type Planned struct {
	Target string `json:"target"`
	From   Plan   `json:"from"` // what the row said
	To     Again  `json:"to"`   // what it says from now on
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"` // who wanted it; "": the schedule did
}

// Replanned says that the schedule of a row was edited while it ran, so that what follows the end
// of that run was planned anew. It is appended before the row is updated.
type Replanned struct {
	Token    string `json:"token"` // of the claim
	Schedule string `json:"schedule,omitempty"`
	Zone     string `json:"time_zone,omitempty"`
	Again    *Again `json:"again,omitempty"` // nil: the row is done
	Note     string `json:"note,omitempty"`  // why that is so, where the new schedule can't be read; it stands in stderr
}

// Comes tells when the row of a job that has ended comes back; nil where it does not.
func (j Job) Comes() *Again {
	if j.Status != StatusDone {
		return nil
	}
	return j.Again
}

// first is the number of a claim's first start, but one: attempts of the same run that other claims
// have made come before it.
func (a Accepted) first() int {
	if a.Plan == nil {
		return 0
	}
	return int(a.Plan.Attempts)
}

// planned is a job whose row was planned anew, without a run.
func planned(id int64, p Planned, e Event) Job {
	return Job{ID: id, Target: p.Target, Status: StatusPlanned, Ended: e.Time, Reason: p.Reason, Again: &p.To}
}

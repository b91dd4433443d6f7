package store

import (
	"fmt"
	"slices"
	"strings"

	"jobd/journal"
)

// SigColumn holds the tokens of claims where the configuration names no other column for them, and
// the name of the signal that ended a job.
const SigColumn = "sig"

// TokenLength is how many characters a claim's token has: "@", four of the worker's id, and five of
// its own.
const TokenLength = 10

// workerPrefixLength is how many characters of a token are the same for all claims of a worker.
const workerPrefixLength = 5

// Columns are the columns that a jobs table must have, in the order of the usual table.
func Columns() []string {
	return []string{
		"id", "target", "time_created", "time_started", "time_finished", "status", "result", "return_code", SigColumn, "stdout", "stderr",
	}
}

// Statuses are the words that the column status must be able to hold, where the optional columns
// are used so.
func Statuses(uses Uses) []string {
	words := []string{
		journal.RowWaiting, journal.RowManual, journal.RowAccepted, journal.RowRunning, journal.RowDone, journal.RowIgnored,
	}
	if uses.Delays() {
		words = append(words, journal.RowDelayed)
	}
	return words
}

// IsTaken tells whether a column can't hold the tokens of claims because it holds something else.
// Databases take no notice of the case of letters in names of columns.
func IsTaken(column string) bool {
	return !strings.EqualFold(column, SigColumn) &&
		slices.ContainsFunc(Columns(), func(own string) bool { return strings.EqualFold(own, column) })
}

// The optional columns, which are about time. Those that the configuration does not name are the
// application's, whatever they are called.
const (
	ColumnRunAt       = "run_at"
	ColumnPlannedAt   = "planned_at"
	ColumnSchedule    = "schedule"
	ColumnTimeZone    = "time_zone"
	ColumnAttempts    = "attempts"
	ColumnMaxAttempts = "max_attempts"
	ColumnTimeout     = "timeout"
	ColumnPriority    = "priority"
	ColumnUniqueKey   = "unique_key"
)

// ColumnWorkload holds what a Gearman client has submitted, in a table that jobd has made itself.
const ColumnWorkload = "workload"

// TimeColumns are the optional columns, in the order of the documentation.
func TimeColumns() []string {
	return []string{
		ColumnRunAt, ColumnPlannedAt, ColumnSchedule, ColumnTimeZone, ColumnAttempts, ColumnMaxAttempts,
		ColumnTimeout, ColumnPriority, ColumnUniqueKey,
	}
}

// Uses are the optional columns that are jobd's in a table.
type Uses []string

// Has tells whether a column is jobd's.
func (u Uses) Has(column string) bool { return slices.Contains(u, column) }

// Any tells whether rows have anything to say of time.
func (u Uses) Any() bool { return len(u) > 0 }

// Delays tells whether rows may be delayed.
func (u Uses) Delays() bool { return u.Has(ColumnRunAt) }

// Ordered tells whether claims need more than the order of ids, and so have to name their indexes.
func (u Uses) Ordered() bool { return u.Delays() || u.Has(ColumnPriority) }

// companions are the columns that others are of no use without.
var companions = map[string][]string{
	ColumnSchedule:    {ColumnRunAt, ColumnPlannedAt, ColumnAttempts},
	ColumnTimeZone:    {ColumnSchedule},
	ColumnMaxAttempts: {ColumnRunAt, ColumnPlannedAt, ColumnAttempts},
	ColumnPlannedAt:   {ColumnRunAt},
}

// CheckUses tells what is wrong with a list of optional columns: a name that is none, or a column
// that is of no use without one that is not in the list.
func CheckUses(uses Uses) error {
	for _, name := range uses {
		if !slices.Contains(TimeColumns(), name) {
			return fmt.Errorf("%q is not a column of jobd's; allowed: %s, or all", name, strings.Join(TimeColumns(), ", "))
		}
		for _, other := range companions[name] {
			if !uses.Has(other) {
				return fmt.Errorf("%s needs %s", name, strings.Join(companions[name], ", "))
			}
		}
	}
	return nil
}

// Severity tells how bad a finding is.
type Severity int

// The severities.
const (
	Warning Severity = iota // it works, but not as somebody may expect
	Fault                   // it can't work: Check fails with it
)

// Finding is one thing that is wrong with a table, its server, the account, or the way there. No
// part of it holds a password.
type Finding struct {
	Severity Severity
	Where    string // the thing that it is about, as in: column target of `site`.`jobs`
	What     string // what is wrong with it
	Remedy   string // what mends it, a statement where there is one that can be pasted; "": nothing is known
}

// String is the finding in one line: where, what, remedy.
func (f Finding) String() string { return f.Where + ": " + f.Advice() }

// Advice is what is wrong, and the remedy, where it is known what the finding is about.
func (f Finding) Advice() string {
	if f.Remedy == "" {
		return f.What
	}
	return f.What + "; " + f.Remedy
}

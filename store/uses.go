package store

import (
	"fmt"
	"slices"
	"strings"
)

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
			return fmt.Errorf("%q is no column of jobd's; allowed are %s, or all", name, strings.Join(TimeColumns(), ", "))
		}
		for _, other := range companions[name] {
			if !uses.Has(other) {
				return fmt.Errorf("%s needs %s", name, strings.Join(companions[name], ", "))
			}
		}
	}
	return nil
}

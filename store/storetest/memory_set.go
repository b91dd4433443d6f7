package storetest

import (
	"strings"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// edited tells whether a row has another schedule than its end was planned from.
func (m *Memory) edited(c store.Change, row *store.Seen) bool {
	condition, args := rule.Unedited(c, m.Uses)
	return condition != "" && (args[0] != row.Plan.Schedule || len(args) > 1 && args[1] != row.Plan.Zone)
}

// set makes of a row what an update would.
func (m *Memory) set(row *store.Seen, list []rule.Assignment) {
	if row.Plan == nil && m.Uses.Any() {
		row.Plan = &journal.Plan{}
	}
	text, args := rule.Set(list, func(column string) string { return column })
	for i, column := range strings.Split(text, ", ") {
		number, _ := args[i].(int64)
		word, _ := args[i].(string)
		switch strings.TrimSuffix(column, " = ?") {
		case "status":
			row.Status = word
		case store.SigColumn:
			row.Owner = word
		case "time_started":
			row.Started = number
		case "time_finished":
			row.Finished = number
		case "result":
			row.Result = word
		case store.ColumnRunAt:
			row.Plan.RunAt = number
		case store.ColumnPlannedAt:
			row.Plan.PlannedAt = number
		case store.ColumnAttempts:
			row.Plan.Attempts = number
		}
	}
}

// copied is a row as somebody else gets it.
func copied(row *store.Seen) *store.Seen {
	seen := *row
	if row.Plan != nil {
		plan := *row.Plan
		seen.Plan = &plan
	}
	return &seen
}

// shape is how a table in memory holds what jobd writes: as it comes.
func (m *Memory) shape() *rule.Shape {
	return &rule.Shape{
		Uses: m.Uses, Owner: store.SigColumn, Columns: map[string]rule.Column{"result": {Nullable: true}},
		Output: func(done *journal.Done, _ bool) (stdout, stderr string) { return "", done.Note },
	}
}

package main

import (
	"jobd/cmd/internal/history"
	"jobd/journal"
)

// ran tells whether the run of a row that recurs is over: the one that was under way when the row was
// first seen, or the next one then. A row between two attempts has not ended its run: its planned
// start is the same, and it counts attempts. The table has whole seconds, and a run that was planned
// anew was none, so a run is over where there is a newer end, or where another one was planned while
// it was under way.
func (w *jobWait) ran(row history.Row) bool {
	id := int64(row.Job)
	if row.Plan == nil || row.Plan.Schedule == "" {
		return false
	}
	first, seen := w.first[id]
	if !seen || first.Plan.PlannedAt == 0 && row.Finished == first.Finished {
		w.first[id] = row // the first run is planned by its claim
		return false
	}
	moved := row.Plan.PlannedAt != first.Plan.PlannedAt
	newer := row.Finished != first.Finished || moved && first.Status != journal.RowDelayed && first.Status != journal.RowWaiting
	if !newer {
		return false
	}
	return moved || row.Status == journal.RowDelayed && row.Plan.Attempts == 0
}

// statusText is what a row's status says of a job that is waited for.
func (w *jobWait) statusText(row history.Row) string {
	if row.Status != journal.RowDelayed || row.Plan == nil || row.Plan.RunAt == 0 {
		return row.Status
	}
	return row.Status + " until " + w.seconds(row.Plan.RunAt)
}

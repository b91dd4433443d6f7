package rule

import (
	"jobd/journal"
	"jobd/store"
)

// Judge tells what became of a change whose update matched no row; found is
// nil where there is none of that id.
//
// A release only wants the row not to be ours. An update that matched no row shows
// that: the claim never committed, or a former try did it. So it counts as applied.
//
// A running that finds its row done with the same start was applied, and what came after
// it too: a mirror that was cut off goes over its last steps again.
//
// A row that should be ignored and is, was ignored by a former try, or by somebody else to the same end.
//
// A row that the update should have met was changed back in between, or a trigger skips its
// updates: it is tried again.
//
// A row that was created after the claim is another job, which got an old id again from a server
// that had lost rows. However much it looks like the end of this one, nothing of this one is in it.
//
// Where rows may come back, a row that is ours still, but has another schedule, is for the mirror to
// plan anew; and workers share a row over time: one with a newer end, that is not ours, has had this
// end before. A newer start says the same of a running, but only where that claim is over, which the
// table can't know: the mirror does.
func Judge(change store.Change, found *store.Seen, uses store.Uses) store.Outcome {
	if change.GivesBack() {
		return store.Outcome{Fate: store.Applied}
	}
	if found == nil {
		return store.Outcome{Fate: store.Lost}
	}
	if guarded(change, found) {
		if isEdited(change, found, uses) {
			return store.Outcome{Fate: store.Edited, Found: &found.Row}
		}
		return store.Outcome{Fate: store.Held, Note: "the update met no row, though the row is as the worker left it"}
	}
	later := newer(change, found)
	if !later && change.Status == journal.RowIgnored {
		if found.Status == journal.RowIgnored {
			return store.Outcome{Fate: store.Applied}
		}
		return store.Outcome{Fate: store.Lost, Found: &found.Row}
	}
	hasEnded := found.Status == journal.RowDone || uses.Delays() && found.Status == journal.RowDelayed
	if !later && hasEnded && sameRun(change, found) {
		return store.Outcome{Fate: store.Applied}
	}
	if !later && change.EndsRun() && found.Status != journal.RowDone && found.Finished != 0 && found.Finished == store.Seconds(change.Finish) {
		return store.Outcome{Fate: store.Applied} // and set back, or claimed again, since: its time stays until the next end
	}
	passed := !later && uses.Delays() && found.Owner != change.Token && wentOn(change, found)
	if passed && change.EndsRun() {
		return store.Outcome{Fate: store.Applied}
	}
	return store.Outcome{Fate: store.Lost, Found: &found.Row, Newer: later, Passed: passed}
}

// wentOn tells whether a row shows a newer end than the change brings, or a newer start.
func wentOn(change store.Change, found *store.Seen) bool {
	if change.Status == journal.RowRunning {
		return found.Started > store.Seconds(change.Start)
	}
	return change.EndsRun() && found.Finished > store.Seconds(change.Finish)
}

// isEdited tells whether a row that is ours has another schedule than its end was planned from.
func isEdited(change store.Change, found *store.Seen, uses store.Uses) bool {
	if !isGuarded(change, uses) || found.Plan == nil {
		return false
	}
	return found.Plan.Schedule != change.Plan.Schedule || uses.Has(store.ColumnTimeZone) && found.Plan.Zone != change.Plan.Zone
}

// isGuarded tells whether a change is applied only to a row with the schedule of its claim.
func isGuarded(change store.Change, uses store.Uses) bool {
	return change.EndsRun() && change.Plan != nil && uses.Has(store.ColumnSchedule)
}

// Unedited is the further condition, with its arguments, that a row has the schedule still from
// which the end of its run was planned; "" where the change needs none.
func Unedited(change store.Change, uses store.Uses) (condition string, args []any) {
	if !isGuarded(change, uses) {
		return "", nil
	}
	condition, args = same(store.ColumnSchedule, change.Plan.Schedule)
	if uses.Has(store.ColumnTimeZone) {
		zone, more := same(store.ColumnTimeZone, change.Plan.Zone)
		condition, args = condition+zone, append(args, more...)
	}
	return condition, args
}

// same is the condition that a column says what a claim read in it; NULL is "".
func same(column, text string) (condition string, args []any) {
	return " AND COALESCE(CAST(" + column + " AS CHAR), '') = ?", []any{text}
}

// guarded tells whether a row is one that the change's update meets.
func guarded(change store.Change, found *store.Seen) bool {
	return change.Token != "" && found.Owner == change.Token && (found.Status == journal.RowAccepted || found.Status == journal.RowRunning)
}

// newer tells that a row is a later job than the one that the change is about.
func newer(change store.Change, found *store.Seen) bool {
	return !change.Accepted.IsZero() && found.Created > store.Seconds(change.Accepted)
}

// sameRun tells whether a done row is the end of the very run that the change is about.
func sameRun(change store.Change, found *store.Seen) bool {
	if change.Status == journal.RowRunning {
		return found.Started == store.Seconds(change.Start)
	}
	return found.Finished == store.Seconds(change.Finish) && found.Result == change.Done.Result
}

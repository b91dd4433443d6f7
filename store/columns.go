package store

import (
	"slices"
	"strings"

	"jobd/journal"
)

// SigColumn holds the tokens of claims where the configuration names no other column for them, and
// the name of the signal that ended a job.
const SigColumn = "sig"

// TokenLength is how many characters a claim's token has: "@", the mark of its worker, and five of
// its own.
const TokenLength = 10

// markLength is how many characters of a token are the same for all claims of a worker.
const markLength = 5

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

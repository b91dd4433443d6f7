package store

import (
	"slices"
	"strings"
)

// ownColumns are the columns of a jobs table that have a meaning of their own: none of them may
// be the one for the tokens of claims, which would overwrite it. The column sig is made for that.
var ownColumns = []string{
	"id", "target", "time_created", "time_started", "time_finished", "status", "result", "return_code", "stdout", "stderr",
}

// IsTaken tells whether a column can't hold the tokens of claims because it holds something else. Databases take no notice
// of the case of letters in names of columns.
func IsTaken(column string) bool {
	return slices.ContainsFunc(ownColumns, func(own string) bool { return strings.EqualFold(own, column) })
}

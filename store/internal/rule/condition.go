package rule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"jobd/journal"
	"jobd/store"
)

// The conditions under which rows are changed.
const (
	isFree          = "status IN ('waiting','manual')"           // a claim's
	isDelayed       = "status = 'delayed'"                       // a claim's of such rows
	isFreeOrDelayed = "status IN ('waiting','manual','delayed')" // of a try that knows of neither
	IsUnderWay      = "status IN ('accepted','running')"         // a change's, which asks for its token, too
)

// List is ids as SQL takes them between the brackets of IN.
func List(ids []int64) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(words, ",")
}

// in is a condition that the target is one of some names; there is one at least.
func in(names []string) (condition string, args []any) {
	for _, name := range names {
		args = append(args, name)
	}
	return "target IN (?" + strings.Repeat(", ?", len(names)-1) + ")", args
}

// UnderWay chooses, in the order of ids, the rows that are under way and whose owner column begins
// with owner, and those of some targets whose owner column is empty.
func UnderWay(column, owner string, targets []string) (condition string, args []any) {
	condition, args = IsUnderWay+" AND ("+column+" LIKE ?", []any{owner + "%"}
	if len(targets) > 0 {
		among, names := in(targets)
		condition += " OR COALESCE(" + column + ", '') = '' AND " + among
		args = append(args, names...)
	}
	return condition + ") ORDER BY id", args
}

// Expressions are what tells times in a table, in unix seconds.
type Expressions struct{ Created, Finished, Now string }

// Unclaimed chooses, in the order of ids, at most so many free rows of some targets, one at least,
// with a greater id than after, that were created before a time. A delayed row is one of them where
// it is due, and has not ended since that time.
func Unclaimed(targets []string, tell Expressions, uses store.Uses, before, after int64, limit int) (condition string, args []any) {
	among, names := in(targets)
	args = append([]any{after, before}, names...)
	free := isFree
	if uses.Delays() {
		free = fmt.Sprintf("(%s OR %s AND run_at <= %s AND %s < %d)", isFree, isDelayed, tell.Now, tell.Finished, before)
	}
	return free + " AND id > ? AND " + tell.Created + " < ? AND " + among + " ORDER BY id LIMIT ?", append(args, limit)
}

// Distinct drops rows that a second target matched too: one that the column takes for the first.
func Distinct(rows []journal.Row) []journal.Row {
	seen := make(map[int64]bool, len(rows))
	return slices.DeleteFunc(rows, func(row journal.Row) bool {
		again := seen[row.Job]
		seen[row.Job] = true
		return again
	})
}

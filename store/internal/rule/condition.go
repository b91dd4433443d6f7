package rule

import (
	"strconv"
	"strings"
)

// The conditions under which rows are changed.
const (
	isFree     = "status IN ('waiting','manual')"   // a claim's
	isDelayed  = "status = 'delayed'"               // a claim's of such rows
	IsUnderWay = "status IN ('accepted','running')" // a change's, which asks for its token, too
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

// underWay chooses, in the order of ids, the rows that are under way and whose owner column begins
// with owner, and those of some targets whose owner column is empty.
func underWay(column, owner string, targets []string) (condition string, args []any) {
	condition, args = IsUnderWay+" AND ("+column+" LIKE ?", []any{owner + "%"}
	if len(targets) > 0 {
		among, names := in(targets)
		condition += " OR " + column + " = '' AND " + among
		args = append(args, names...)
	}
	return condition + ") ORDER BY id", args
}

// recurs are the statuses of rows that are not at their end, as a list of SQL.
const recurs = "'waiting', 'delayed', 'accepted', 'running'"

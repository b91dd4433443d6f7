package rule

import (
	"cmp"
	"database/sql"
	"slices"
	"strconv"
	"strings"

	"jobd/journal"
	"jobd/store"
)

// The conditions under which rows are changed.
const (
	isFree     = "status IN ('waiting','manual')"   // a claim's
	isDelayed  = "status = 'delayed'"               // a claim's of such rows
	isUnderWay = "status IN ('accepted','running')" // a change's, which asks for its token, too
)

// recurs are the statuses of rows that are not at their end, as a list of SQL.
const recurs = "'waiting', 'delayed', 'accepted', 'running'"

// dueWindow is a number of due rows: a claim looks for the highest priority among at least so many of
// those that are due for longest, since no index has both orders. It reads and locks them all, and gives
// back those that it does not choose.
const dueWindow = 100

// Statement is one statement, with its arguments.
type Statement struct {
	Query  string
	Args   []any
	target string // of which it reads rows; "": of any
}

// Ask is how many rows of a target a claim wants. Waiting ones are among some ids; none: from the front.
type Ask struct {
	Target string
	Room   int
	IDs    []int64
}

// Choose are the statements that choose rows of a target that wait or are due. A statement for each,
// equality on status and target and the order of ids, is what the index serves: with target IN (…)
// every candidate is sorted and locked (pitfall 2). The same goes for the order of priorities, and for
// that of times.
func (s *Shape) Choose(one Ask, except []int64) (list []Statement) {
	but, hint, order := s.but(except), s.byClaims(), "id"
	among, window := "", one.Room
	if len(one.IDs) > 0 {
		among, hint = " AND id IN ("+List(one.IDs)+")", s.ByKey
	}
	if s.Uses.Has(store.ColumnPriority) {
		hint, order, window = s.by(s.byPriority), "priority DESC, id", max(window, dueWindow)
	}
	query, _ := s.selectRow(nil)
	add := func(hint, condition, order string, limit int) {
		text := query + hint + " WHERE " + condition + but + " ORDER BY " + order + " LIMIT " + cmp.Or(s.Limit, "?") + s.Locking
		list = append(list, Statement{text, []any{one.Target, limit}, one.Target})
	}
	add(hint, "status = 'waiting' AND target = ?"+among, order, one.Room)
	for _, due := range s.due() {
		add(s.by(s.byDue), due, "run_at", window)
	}
	return list
}

// Lists tells whether the ids of rows that wait can be read in order, and the rows by their ids.
func (s *Shape) Lists() bool {
	return s.ByKey != "" && s.byID != "" && !s.Uses.Has(store.ColumnPriority)
}

// Candidates reads the ids of rows of a target that wait, behind some of the first ones, without locks.
func (s *Shape) Candidates(target string, except []int64, limit, offset int) Statement {
	return Statement{
		Query: s.Dirty + "SELECT id FROM " + s.Table + s.by(s.byID) + " WHERE status = 'waiting' AND target = ?" + s.but(except) + " ORDER BY id LIMIT ? OFFSET ?",
		Args:  []any{target, limit, offset},
	}
}

// due are the conditions that a row of a target is due; none where the table has no such rows. The
// server's clock decides, for all workers alike. A time from the year 2100 on is one in milliseconds, or
// another mistake, which nobody would ever see come: such a row is taken at once, behind all others, so
// that it can be told.
func (s *Shape) due() (conditions []string) {
	if !s.Uses.Delays() {
		return nil
	}
	far := "run_at >= " + strconv.Itoa(journal.Century)
	if s.Splits {
		return []string{isDelayed + " AND target = ? AND run_at <= " + s.Now, isDelayed + " AND target = ? AND " + far}
	}
	return []string{isDelayed + " AND target = ? AND (run_at <= " + s.Now + " OR " + far + ")"}
}

// but is the condition that leaves out rows by their ids, those that are no ids to us among them.
func (s *Shape) but(except []int64) string {
	return s.AnID + " AND id NOT IN (" + List(append([]int64{0}, except...)) + ")"
}

// IDsLimit is how many ids go into one statement: with many more a server gives up finding rows one by
// one.
const IDsLimit = 1000

// Named are the statements that choose rows by their ids, in order.
func (s *Shape) Named(ids []int64, names []string) (list []Statement) {
	query, args := s.selectRow(names)
	for some := range slices.Chunk(ids, IDsLimit) {
		text := query + s.ByKey + " WHERE id IN (" + List(some) + ")" + s.AnID + " ORDER BY id" + s.Locking
		list = append(list, Statement{Query: text, Args: args})
	}
	return list
}

// IDs are ids in order, each once, without those that are none.
func IDs(ids []int64) []int64 {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	return slices.DeleteFunc(ids, func(id int64) bool { return id == 0 })
}

// Lines reads the rows of a statement of Choose or Named. A row gets the target that was asked for, since
// the collation may have matched another spelling. If none was asked for, it gets the one of names that
// the column takes for the same, else its own. No content of the table makes Lines fail.
func (s *Shape) Lines(results *sql.Rows, of Statement, names []string) (lines []Line, err error) {
	for results.Next() {
		var one Line
		var place int
		if err := s.scanRow(results.Scan, &one, &place); err != nil {
			return nil, err
		}
		if place > 0 {
			one.Target = names[place-1]
		}
		one.Target = cmp.Or(of.target, one.Target)
		lines = append(lines, one)
	}
	return lines, results.Err()
}

// Decision is the statement that makes of rows what a claim decided.
func (s *Shape) Decision(v Verdict) Statement {
	set, args := Set(v.Write(s), s.Quote)
	for _, id := range v.Jobs {
		args = append(args, id)
	}
	marks := strings.TrimSuffix(strings.Repeat("?,", len(v.Jobs)), ",")
	return Statement{Query: "UPDATE " + s.Table + " SET " + set + " WHERE id IN (" + marks + ") AND " + v.Guard(), Args: args}
}

// Update is the statement that applies a change to the rows of some jobs, in two parts, between which
// their ids stand. It is guarded by the claim's token.
func (s *Shape) Update(change store.Change, reduced bool) (set, guard string, args, more []any) {
	set, args = Set(s.Write(change, reduced), s.Quote)
	unedited, schedule := Unedited(change, s.Uses)
	guard = ") AND " + isUnderWay + " AND " + s.Quote(s.Owner) + " = ?" + unedited
	return "UPDATE " + s.Table + " SET " + set + " WHERE id IN (", guard, args, append([]any{change.Token}, schedule...)
}

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
	condition, args = isUnderWay+" AND ("+column+" LIKE ?", []any{owner + "%"}
	if len(targets) > 0 {
		among, names := in(targets)
		condition += " OR " + column + " = '' AND " + among
		args = append(args, names...)
	}
	return condition + ") ORDER BY id", args
}

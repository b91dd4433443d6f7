package rule

import (
	"cmp"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/journal"
	"jobd/store"
)

// The table as claims see it: the shape of a row, which rows are locked, and in which order they are
// taken.

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
		among, hint = " AND id IN ("+List(one.IDs)+")", s.by(s.byID)
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

// Lists tells whether the ids of rows that wait can be read in order, and the rows by their ids: from one index, so
// that a claim locks an entry there before the row, as those do who look for rows by their status.
func (s *Shape) Lists() bool { return s.byID != "" && !s.Uses.Has(store.ColumnPriority) }

// Candidates reads the ids of rows of a target that wait, behind some of the first ones, without locks; those among
// some ids, where there are some.
func (s *Shape) Candidates(target string, among, except []int64, limit, offset int) Statement {
	condition := ""
	if len(among) > 0 {
		condition = " AND id IN (" + List(among) + ")"
	}
	return Statement{
		Query: s.Dirty + "SELECT id FROM " + s.Table + s.by(s.byID) + " WHERE status = 'waiting' AND target = ?" + condition + s.but(except) +
			" ORDER BY id LIMIT ? OFFSET ?",
		Args: []any{target, limit, offset},
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

// Decision is the statement that makes of rows what a claim decided. It finds them by their ids: where few rows wait,
// MySQL finds them by their status else, and meets those of other claims.
func (s *Shape) Decision(v Verdict) Statement {
	set, args := Set(v.Write(s), s.Quote)
	for _, id := range v.Jobs {
		args = append(args, id)
	}
	marks := strings.TrimSuffix(strings.Repeat("?,", len(v.Jobs)), ",")
	return Statement{Query: "UPDATE " + s.Table + s.ByKey + " SET " + set + " WHERE id IN (" + marks + ") AND " + v.Guard(), Args: args}
}

// Update is the statement that applies a change to the rows of some jobs, in two parts, between which
// their ids stand. It is guarded by the claim's token.
func (s *Shape) Update(change store.Change, reduced bool) (set, guard string, args, more []any) {
	set, args = Set(s.Write(change, reduced), s.Quote)
	unedited, schedule := Unedited(change, s.Uses)
	guard = ") AND " + isUnderWay + " AND " + s.Quote(s.Owner) + " = ?" + unedited
	return "UPDATE " + s.Table + s.ByKey + " SET " + set + " WHERE id IN (", guard, args, append([]any{change.Token}, schedule...)
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

// Shape is how a table says things: expressions of its SQL that are never NULL, and never fail,
// whatever stands in a column.
type Shape struct {
	Chosen
	Columns   map[string]Column // by name in lower case
	Unindexed string            // the indexes that are missing, and what makes them: nothing is claimed
	Uses      store.Uses
	Table     string // quoted
	Owner     string // the owner column
	Worker    string // the worker's name
	AnID      string // a further condition that the id is one, or ""
	Now       string // unix seconds
	Clock     string // the same in microseconds
	Code      string // return_code as a number, or NULL
	Locking   string // locks the rows that are read, or ""
	Limit     string // how many rows of a target are read, as SQL; "": ?
	ByKey     string // a hint that finds rows by their ids, or ""
	Dirty     string // begins a query that sees what is not committed, too; "": the server shows that to nobody
	Splits    bool   // the server reads no index by an OR of two ranges: each has its own statement

	Text    func(column, none string) string
	Seconds func(column string) string                        // unix seconds
	Number  func(name string) string                          // of an optional column that is used
	Long    func(name string) string                          // the beginning of the text of one
	Tail    func(column string, bytes int) (size, end string) // of output
	Hint    string                                            // to an index, with %s for its name
	Quote   func(name string) string
	Output  func(done *journal.Done, reduced bool) (stdout, stderr string) // what a job wrote, as its columns hold it
}

// byClaims has a query use the index that has the order of ids, where another one could be taken for it.
func (s *Shape) byClaims() string {
	if !s.Uses.Ordered() {
		return ""
	}
	return s.by(s.byID)
}

// by has a query use an index, where it is known. With several that begin with the same columns a server
// may take the wrong one, or none.
func (s *Shape) by(index string) string {
	if index == "" {
		return ""
	}
	return fmt.Sprintf(s.Hint, s.Quote(index))
}

// planned are the columns that rows are read with beside the usual ones, with a comma before each: what
// a row says about time, and its priority. NULL reads as nothing.
func (s *Shape) planned() (list string) {
	if !s.Uses.Any() {
		return ""
	}
	for _, name := range []string{
		store.ColumnRunAt, store.ColumnPlannedAt, store.ColumnAttempts, store.ColumnMaxAttempts, store.ColumnTimeout, store.ColumnPriority,
	} {
		list += ", " + s.number(name)
	}
	for _, name := range []string{store.ColumnSchedule, store.ColumnTimeZone} {
		if s.Uses.Has(name) {
			list += ", " + s.Long(name)
		} else {
			list += ", ''"
		}
	}
	return list
}

func (s *Shape) number(name string) string {
	if !s.Uses.Has(name) {
		return "0"
	}
	return s.Number(name)
}

// scan reads a row's columns, and behind them those of planned.
func (s *Shape) scan(scan func(...any) error, row *journal.Row, fields ...any) (priority int64, err error) {
	if !s.Uses.Any() {
		return 0, scan(fields...)
	}
	var p journal.Plan
	err = scan(append(fields, &p.RunAt, &p.PlannedAt, &p.Attempts, &p.MaxAttempts, &p.Timeout, &priority, &p.Schedule, &p.Zone)...)
	row.Plan = &p
	return priority, err
}

// place is the place of a row's target among some names, counted from 1, as the column compares; 0: it
// is none of them.
func place(names []string) (expression string, args []any) {
	if len(names) == 0 {
		return "0", nil
	}
	expression = "CASE"
	for i, name := range names {
		expression += fmt.Sprintf(" WHEN target = ? THEN %d", i+1)
		args = append(args, name)
	}
	return expression + " ELSE 0 END", args
}

// base begins a query for rows: id, target, status, owner.
func (s *Shape) base() string {
	return "SELECT id, " + s.Text("target", "null") + ", " + s.Text("status", "") + ", " + s.Text(s.Quote(s.Owner), "")
}

// selectRow begins a query for rows as claims see them; behind these columns stands the place of the
// target.
func (s *Shape) selectRow(names []string) (query string, args []any) {
	place, args := place(names)
	return s.base() + ", " + s.Seconds("time_created") + ", " + s.Seconds("time_finished") + ", " + s.Text("result", "") +
		", " + place + ", " + s.Clock + s.planned() + " FROM " + s.Table, args
}

// scanRow reads a row of selectRow.
func (s *Shape) scanRow(scan func(...any) error, l *Line, place *int) (err error) {
	var now int64
	l.priority, err = s.scan(scan, &l.Row, &l.Job, &l.Target, &l.Status, &l.Owner, &l.Created, &l.Finished, &l.Result, place, &now)
	l.Now = time.UnixMicro(now)
	return err
}

// selectSeen begins a query of what scanSeen reads, more columns behind it. The signal is that of an end; a
// row that comes back has one, too.
func (s *Shape) selectSeen(more string) string {
	ended := "status = 'done'"
	if s.Uses.Delays() {
		ended = "status IN ('done','delayed')"
	}
	query := s.base()
	for _, column := range []string{"time_created", "time_started", "time_finished"} {
		query += ", " + s.Seconds(column)
	}
	signal := "CASE WHEN " + ended + " THEN " + s.Text("sig", "") + " ELSE '' END"
	return query + ", " + s.Text("result", "") + ", " + s.Code + ", " + signal + more + s.planned() + " FROM " + s.Table
}

// scanSeen reads a row of selectSeen.
func (s *Shape) scanSeen(scan func(...any) error, row *store.Seen, more ...any) error {
	_, err := s.scan(scan, &row.Row, append([]any{
		&row.Job, &row.Target, &row.Status, &row.Owner,
		&row.Created, &row.Started, &row.Finished, &row.Result, &row.Code, &row.Signal,
	}, more...)...)
	return err
}

// Line is a row with what decides about its turn.
type Line struct {
	journal.Row
	priority int64
}

// Rows are the rows of lines.
func Rows(lines []Line) []journal.Row {
	rows := make([]journal.Row, len(lines))
	for i, one := range lines {
		rows[i] = one.Row
	}
	return rows
}

// InOrder sorts what was found of one target, and gives the first ones: higher priority first, then
// what is earlier. What waits does so since it was created, what is due since then; where nobody
// knows when a waiting row was created, it is left to chance: neither holds up the other for ever.
func InOrder(found []Line, room int) []Line {
	var waiting, due []Line
	for _, one := range found {
		if one.Status == journal.RowDelayed {
			due = append(due, one)
		} else {
			waiting = append(waiting, one)
		}
	}
	slices.SortFunc(waiting, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.Job, b.Job))
	})
	slices.SortFunc(due, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.Plan.RunAt, b.Plan.RunAt), cmp.Compare(a.Job, b.Job))
	})
	first := make([]Line, 0, min(room, len(found)))
	for len(first) < cap(first) {
		from := &waiting
		if len(waiting) == 0 || len(due) > 0 && goesFirst(due[0], waiting[0]) {
			from = &due
		}
		first = append(first, (*from)[0])
		*from = (*from)[1:]
	}
	return first
}

// goesFirst tells whether a due row goes before a waiting one.
func goesFirst(due, waiting Line) bool {
	if due.priority != waiting.priority {
		return due.priority > waiting.priority
	}
	if waiting.Created == 0 {
		return rand.IntN(2) == 0
	}
	return due.Plan.RunAt < waiting.Created
}

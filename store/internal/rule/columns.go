package rule

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"jobd/journal"
	"jobd/store"
)

// class is what a column holds.
type class int

// The classes.
const (
	Number class = 1 << iota
	Text
	Bytes
	Words // some words only
	Stamp // a moment that reads as unix seconds
	Other
)

// Column is what a catalogue says of a column.
type Column struct {
	Name, Declared      string
	Holds               class
	Least, Most         int64    // of numbers
	Length              int      // of a text
	Words               []string // that it holds alone; nil: any
	Nullable, Generated bool
}

// Need is what jobd needs of a column.
type Need struct {
	Name     string
	Classes  class
	most     int64    // the greatest number that must fit
	Length   int      // of a text that must fit
	Words    []string // that must fit
	null     null
	warns    bool   // otherwise it works, with what is lost
	lost     string // what happens otherwise
	optional bool
}

// null is whether a column must take NULL.
type null int

const (
	either null = iota
	always
	never
)

// Needed says which columns a table needs, and how its statements change them.
type Needed struct {
	Table     string // quoted
	Owner     string // the owner column
	Worker    string // the worker's name
	MaxOutput int
	Uses      store.Uses
	Loose     bool // any value may stand in any column: only optional ones are looked at closely

	Quote  func(name string) string
	Add    func(name string) string      // the statement that adds a column
	Change func(c Column, n Need) string // the one that makes it as needed; "": there is none
	// Index: the one that makes an index; its name counts where one is needed.
	Index func(unique bool, name string, columns string) string
}

// needs are the columns that jobd needs.
func (n *Needed) needs() []Need {
	const tokens = "claims write their tokens into it (or leave it as it is, and set claim_column to a column for the tokens alone)"
	const written = "claims and updates write unix seconds into it"
	status := Words // in a text `WAITING` and `waiting ` would count as waiting for the server, and for nobody else
	if n.Loose {
		status |= Text
	}
	list := []Need{
		{Name: "id", Classes: Number, lost: "it says which job a row is"},
		{Name: "target", Classes: Text | Words | Bytes, warns: true, lost: "names are compared with it as numbers"},
		{Name: "time_created", Classes: Number | Text | Stamp, warns: true, lost: "it counts as unknown: waiting times are not known, and a reused id is not noticed"},
		{Name: "time_started", Classes: Number | Text, most: math.MaxInt32, Length: 10, lost: written},
		{Name: "time_finished", Classes: Number | Text, most: math.MaxInt32, Length: 10, lost: written},
		{Name: "status", Classes: status, Words: store.Statuses(n.Uses), lost: "updates to these are refused, and rows with any other text are never run"},
		{Name: "result", Classes: Words | Text, Words: []string{"ok", "fail"}, lost: "updates to these are refused"},
		{Name: "return_code", Classes: Number | Text, most: 255, Length: 3, null: always, warns: true, lost: "codes that do not fit are left out, and a job that a signal ended gets 255"},
		{Name: n.Owner, Classes: Text, Length: store.TokenLength, lost: tokens},
		{Name: "stdout", Classes: Text | Bytes, Length: max(n.MaxOutput, 1), warns: true, lost: "longer output, below max_output_buffer, is cut or left out"},
		{Name: "stderr", Classes: Text | Bytes, Length: max(n.MaxOutput, 1), warns: true, lost: "longer output, below max_output_buffer, is cut or left out"},
	}
	if !strings.EqualFold(n.Owner, store.SigColumn) {
		list = append(list,
			Need{Name: n.Owner, Classes: Text, Length: len([]rune(n.Worker)), warns: true, lost: "this worker's name is cut when a job is done"},
			Need{Name: store.SigColumn, Classes: Text, Length: len("SIGVTALRM"), warns: true, lost: "names of signals are cut or left out"})
	}
	for _, name := range store.TimeColumns() {
		need := Need{Name: name, Classes: Number, optional: true, lost: "use_columns names it"}
		switch name {
		case store.ColumnRunAt, store.ColumnPlannedAt:
			need.most, need.null = journal.Century-1, never
		case store.ColumnSchedule, store.ColumnTimeZone:
			need.Classes, need.Length = Text, 64
		case store.ColumnUniqueKey:
			need.Classes, need.null = ^0, always
		}
		if n.Uses.Has(name) {
			list = append(list, need)
		}
	}
	return list
}

// TypeOf is how a column is made in MySQL and in SQLite. Columns that jobd does not name hold the tokens
// of claims.
func TypeOf(column string, uses store.Uses) (mysql, sqlite string) {
	switch column {
	case "id":
		return "int UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE", "INTEGER PRIMARY KEY AUTOINCREMENT"
	case "target":
		return "varchar(64) NOT NULL", "TEXT NOT NULL"
	case "time_created", "time_started", "time_finished", store.ColumnRunAt, store.ColumnPlannedAt:
		return "int UNSIGNED NOT NULL DEFAULT 0", "INTEGER NOT NULL DEFAULT 0"
	case "status":
		return "enum('" + strings.Join(store.Statuses(uses), "','") + "') NOT NULL", "TEXT NOT NULL"
	case "result":
		return "enum('ok','fail') DEFAULT NULL", "TEXT"
	case "return_code":
		return "tinyint UNSIGNED DEFAULT NULL", "INTEGER"
	case "stdout", "stderr":
		return "mediumtext DEFAULT NULL", "TEXT"
	case store.ColumnSchedule, store.ColumnTimeZone:
		return "varchar(64) DEFAULT NULL", "TEXT"
	case store.ColumnAttempts:
		return "smallint UNSIGNED NOT NULL DEFAULT 0", "INTEGER NOT NULL DEFAULT 0"
	case store.ColumnMaxAttempts:
		return "smallint UNSIGNED DEFAULT NULL", "INTEGER"
	case store.ColumnTimeout:
		return "int UNSIGNED DEFAULT NULL", "INTEGER"
	case store.ColumnPriority:
		return "tinyint NOT NULL DEFAULT 0", "INTEGER NOT NULL DEFAULT 0"
	case store.ColumnUniqueKey:
		return "varchar(190) DEFAULT NULL", "TEXT"
	case store.ColumnWorkload:
		return "longblob DEFAULT NULL", "BLOB"
	}
	return fmt.Sprintf("char(%d) DEFAULT NULL", store.TokenLength), "TEXT"
}

// Judge notes what is wrong with the columns of a table, by their names in lower case: one finding
// for each.
func (n *Needed) Judge(f *Findings, columns map[string]Column) {
	own := func(name string) bool { return strings.EqualFold(name, n.Owner) }
	if store.IsTaken(n.Owner) || slices.ContainsFunc(n.Uses, own) {
		f.Fault("set claim_column to a column for the tokens alone: "+n.Add("jobd_claim"), "column %s holds something else, which claims would overwrite with their tokens", strings.ToLower(n.Owner))
	}
	judged := map[string]bool{}
	for _, need := range n.needs() {
		name := strings.ToLower(need.Name)
		c, there := columns[name]
		switch {
		case judged[name]:
			continue
		case !there:
			f.Fault(n.Add(need.Name), "it has no column %s, or none that this account may read", need.Name)
		case c.Generated && slices.ContainsFunc(Written(n.Owner, n.Uses), func(written string) bool { return strings.EqualFold(written, name) }):
			f.Fault(n.anew(need), "column %s (%s) is generated and can't be written", c.Name, c.Declared)
		default:
			must, remedy := n.lacks(c, need)
			if must == "" {
				continue
			}
			note := f.Fault
			if need.warns {
				note = f.Warn
			}
			note(remedy, "column %s (%s) must %s: %s", c.Name, c.Declared, must, need.lost)
		}
		judged[name] = true
	}
}

// lacks is what a column must be, and is not, with the statement that mends it.
func (n *Needed) lacks(c Column, need Need) (must, remedy string) {
	strict := !n.Loose || need.optional
	var lacking []string
	for _, word := range need.Words {
		if c.Words != nil && !slices.Contains(c.Words, word) || c.Holds&Text != 0 && c.Length < len(word) {
			lacking = append(lacking, word)
		}
	}
	change := n.Change(c, need)
	if change == "" {
		change = n.anew(need)
	}
	switch {
	case c.Holds&Text != 0 && need.Classes == Words:
		return "be an ENUM of " + strings.Join(need.Words, ", "), change
	case c.Holds&need.Classes == 0 && strict:
		return "be " + need.kind(), n.anew(need)
	case c.Holds&Number != 0 && c.Most < need.most && strict, c.Holds&(Text|Bytes) != 0 && c.Length < need.Length && strict:
		if c.Holds&Text != 0 && need.Classes&Number != 0 {
			change = n.anew(need)
		}
		return "be " + need.kind(), change
	case len(lacking) > 0:
		return "hold " + strings.Join(lacking, ", "), change
	case need.null == never && c.Nullable && strict:
		return "never be NULL, which is never due", change
	case need.null == always && !c.Nullable && strict:
		return "take NULL", change
	}
	return "", ""
}

// kind is the sort of column that is needed, in words.
func (need Need) kind() string {
	switch {
	case need.Classes&Number != 0 && need.most > 0:
		return fmt.Sprintf("a whole number, up to %d", need.most)
	case need.Classes&Number != 0:
		return "a whole number"
	case len(need.Words) > 0 || need.Length == 0:
		return "a text or an ENUM"
	}
	return fmt.Sprintf("a text of %d characters", need.Length)
}

// anew is the statements that make a column anew. What is there keeps its values under another name.
func (n *Needed) anew(need Need) string {
	return "ALTER TABLE " + n.Table + " RENAME COLUMN " + n.Quote(need.Name) + " TO " + n.Quote("former_"+need.Name) + "; " + n.Add(need.Name)
}

// Index is one of a table's that has all of its rows, with its columns in lower case.
type Index struct {
	Name    string
	Columns []string
	Falling []bool // which of them are in descending order
	Unique  bool
	Part    int // of how many columns it has the beginning only
}

// Chosen are the indexes that claims name, and the one by which rows that recur are listed; "": there is none.
type Chosen struct{ byID, byDue, byPriority, bySchedule string }

// JudgeIndexes finds the indexes that claims name. Without one that they need nothing is claimed: each
// claim would read, and lock, the whole table. behind is the primary key, in which each index ends.
func (n *Needed) JudgeIndexes(f *Findings, indexes []Index, behind []string, falls bool, target string) (chosen Chosen) {
	slices.SortStableFunc(indexes, func(a, b Index) int { return a.Part - b.Part })
	find := func(fits func(Index) bool) string {
		if at := slices.IndexFunc(indexes, fits); at >= 0 {
			return indexes[at].Name
		}
		return ""
	}
	lack := func(name, more string) {
		columns := "status, " + target + ", " + more
		f.bare("it has no index on ("+columns+"), without which nothing is claimed", n.Index(false, name, columns))
	}
	chosen.byID = find(func(i Index) bool { return i.orders("id", false, behind) })
	if chosen.byID == "" && (n.Uses.Ordered() || find(Index.begins) == "") {
		lack("status_target_idx", "id")
	}
	if n.Uses.Delays() {
		due := func(i Index) bool {
			return i.begins() && len(i.Columns) > 2 && i.Columns[2] == store.ColumnRunAt && !i.Falling[2]
		}
		if chosen.byDue = find(due); chosen.byDue == "" {
			lack("status_target_run_at_idx", store.ColumnRunAt)
		}
	}
	if n.Uses.Has(store.ColumnPriority) && !falls {
		f.Fault("take priority out of use_columns, or use MySQL from 8.0.1 or MariaDB from 10.8",
			"column priority needs an index in descending order, which this server does not have: with an ascending one each claim would lock all waiting rows of its target")
	} else if n.Uses.Has(store.ColumnPriority) {
		if chosen.byPriority = find(func(i Index) bool { return i.orders(store.ColumnPriority, true, behind) }); chosen.byPriority == "" {
			lack("status_target_priority_idx", "priority DESC, id")
		}
	}
	if n.Uses.Has(store.ColumnSchedule) {
		chosen.bySchedule = find(func(i Index) bool { return i.Part == 0 && i.Columns[0] == store.ColumnSchedule })
	}
	unique := func(column string, alone bool) string {
		return find(func(i Index) bool {
			return i.Unique && slices.Contains(i.Columns, column) && (!alone || len(i.Columns) == 1)
		})
	}
	if n.Uses.Has(store.ColumnUniqueKey) && unique(store.ColumnUniqueKey, false) == "" {
		f.Fault(n.Index(true, "unique_key_idx", store.ColumnUniqueKey), "no index keeps the values of unique_key unique")
	}
	if unique("id", true) == "" {
		f.Warn(n.Index(true, "id_idx", "id"), "two rows may have the same id: they would be one job, and updates may read the whole table")
	}
	return chosen
}

// Indexes are the statements that make all indexes of a new table.
func (n *Needed) Indexes() (statements []string) {
	f := &Findings{}
	n.JudgeIndexes(f, []Index{{Name: "its key", Columns: []string{"id"}, Unique: true}}, nil, true, "target")
	for _, one := range append(f.Bare, f.List...) {
		statements = append(statements, one.Remedy)
	}
	return statements
}

// begins tells whether an index finds the rows of a status and a target.
func (i Index) begins() bool {
	return len(i.Columns) > 1 && slices.Contains(i.Columns[:2], "status") && slices.Contains(i.Columns[:2], "target")
}

// orders tells whether an index has the rows of a status and a target in the order of a column, and
// then of ids. MariaDB makes nothing of the primary key behind an index that has the beginning of a
// name only: it reads all rows of the target, locks and sorts them.
func (i Index) orders(column string, falling bool, behind []string) bool {
	if !i.begins() {
		return false
	}
	rest, down := i.Columns[2:], i.Falling[2:]
	if column != "id" {
		if len(rest) == 0 || rest[0] != column || down[0] != falling {
			return false
		}
		rest, down = rest[1:], down[1:]
	}
	if len(rest) == 0 {
		return i.Part == 0 && len(behind) > 0 && behind[0] == "id"
	}
	return rest[0] == "id" && !down[0]
}

// Alike notes the names that the column target takes for an earlier one. name makes the statement that
// gives a name and its place, compared as the column is; ask asks a query.
func Alike(names []string, unfit map[string]string, name func(place int) string, ask func(query string, args []any, row Row) error) error {
	if len(names) < 2 {
		return nil
	}
	list, args := make([]string, len(names)), make([]any, len(names))
	for i := range names {
		list[i], args[i] = name(i), names[i]
	}
	served := "(" + strings.Join(list, " UNION ALL ") + ")"
	query := "SELECT MIN(earlier.place), later.place FROM " + served + " AS earlier JOIN " + served + " AS later " +
		"ON earlier.name = later.name AND earlier.place < later.place GROUP BY later.place"
	return ask(query, append(args, args...), func(scan func(...any) error) error {
		var earlier, later int
		err := scan(&earlier, &later)
		if err == nil && names[earlier] != names[later] {
			unfit[names[later]] = fmt.Sprintf("the column target takes it for %q, which is served", names[earlier])
		}
		return err
	})
}

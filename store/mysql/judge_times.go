package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"jobd/store"
	"jobd/store/internal/rule"
)

// optionalType is how an optional column is made.
func optionalType(name string) string {
	switch name {
	case store.ColumnSchedule, store.ColumnTimeZone:
		return "varchar(64) DEFAULT NULL"
	case store.ColumnAttempts:
		return "smallint UNSIGNED NOT NULL DEFAULT 0"
	case store.ColumnMaxAttempts:
		return "smallint UNSIGNED DEFAULT NULL"
	case store.ColumnTimeout:
		return "int UNSIGNED DEFAULT NULL"
	case store.ColumnPriority:
		return "tinyint NOT NULL DEFAULT 0"
	case store.ColumnUniqueKey:
		return "varchar(190) DEFAULT NULL"
	}
	return secondsType
}

// lacks is what a table lacks for the optional columns, and one statement that mends all of it.
type lacks struct {
	table    string
	said     []string // in words
	before   []string // statements that prepare the values
	clauses  []string // of the ALTER TABLE
	indexes  bool     // only indexes are lacking
	replaced []string // columns that are made anew, so that they are gone from the indexes they were in
}

// note notes something that is lacking.
func (l *lacks) note(clause, format string, args ...any) {
	l.said = append(l.said, fmt.Sprintf(format, args...))
	l.clauses = append(l.clauses, clause)
}

// remedy is the statement, with those that have to come before it.
func (l *lacks) remedy() string {
	return strings.Join(append(l.before, "ALTER TABLE "+l.table+" "+strings.Join(l.clauses, ", ")), "; ")
}

// judgeTimes refuses a table that lacks what the optional columns need which are jobd's: a word, a
// column, a type, an index. Others are the application's, and nobody looks at them. An index that
// somebody drops under way stops claims, each of which would lock all rows of its target.
func (t *Table) judgeTimes(found *inspection, indexes map[string]index, names map[string]bool) {
	uses := found.uses
	lacking := &lacks{table: t.name.quoted()}
	if status, there := found.columns["status"]; there && uses.Delays() {
		words := store.Statuses(uses)
		if lost := status.lacks(words); len(lost) > 0 {
			lacking.note("MODIFY "+status.declared(status.withWords(words, lost)), "column status (%s) cannot hold %s", status.definition, strings.Join(lost, ", "))
		}
	}
	t.judgeOptional(found, lacking)
	lacking.indexes = len(lacking.said) == 0
	t.judgeOrders(found, lacking, indexes, names)
	switch {
	case len(lacking.said) == 0:
	case lacking.indexes && t.started.Load():
		found.Warn(lacking.remedy(), "for the columns of use_columns: %s; nothing is claimed before", strings.Join(lacking.said, "; "))
		found.bare = found.List[len(found.List)-1].Advice()
	default:
		found.Fault(lacking.remedy(), "for the columns of use_columns: %s", strings.Join(lacking.said, "; "))
	}
}

// judgeOptional notes which optional columns are missing, and which hold something else.
func (t *Table) judgeOptional(found *inspection, lacking *lacks) {
	var missing []string
	for _, name := range store.TimeColumns() {
		c, there := found.columns[name]
		switch {
		case !found.uses.Has(name):
		case !there:
			missing = append(missing, name)
			lacking.clauses = append(lacking.clauses, "ADD "+quote(name)+" "+optionalType(name))
		case c.generated && slices.Contains(rule.Written("", found.uses), name):
			lacking.replace(c, optionalType(name), quote(c.name), "column %s (%s) is generated, so that nobody can write it")
		case name == store.ColumnRunAt || name == store.ColumnPlannedAt:
			t.judgeMoment(lacking, c)
		case name == store.ColumnSchedule || name == store.ColumnTimeZone:
			judgeWord(lacking, c)
		case name == store.ColumnUniqueKey:
			if !c.nullable {
				freed := c
				freed.nullable, freed.def = true, " DEFAULT NULL"
				lacking.note("MODIFY "+freed.declared(c.definition), "column %s (%s) takes no NULL, which frees the key when a job has ended", c.name, c.definition)
			}
		default:
			judgeNumber(lacking, c)
		}
	}
	if len(missing) > 0 {
		lacking.said = append(lacking.said, "it has no column "+strings.Join(missing, ", "))
	}
}

// judgeMoment notes where a column cannot hold the unix seconds of the present century, or holds
// NULL, at which nothing is ever due.
func (t *Table) judgeMoment(lacking *lacks, c column) {
	const no = "column %s (%s) cannot hold unix seconds until 2100"
	name, table := quote(c.name), t.name.quoted()
	isUnsigned := strings.Contains(c.definition, "unsigned")
	switch c.kind {
	case "int", "integer", "bigint":
		isWide := c.kind == "bigint" || isUnsigned
		if isWide && !c.nullable {
			return
		}
		kind := secondsType
		if isWide {
			kind = c.definition + " NOT NULL DEFAULT 0"
		}
		if c.nullable || !isUnsigned {
			lacking.before = append(lacking.before, "UPDATE "+table+" SET "+name+" = 0 WHERE "+name+" IS NULL OR "+name+" < 0")
		}
		if isWide {
			lacking.note("MODIFY "+name+" "+kind, "column %s (%s) takes NULL, at which no row is ever due; 0 is what it holds for no time", c.name, c.definition)
			return
		}
		lacking.note("MODIFY "+name+" "+kind, no, c.name, c.definition)
	case "tinyint", "smallint", "mediumint", "decimal", "float", "double", "bit":
		lacking.before = append(lacking.before, "UPDATE "+table+" SET "+name+" = 0 WHERE "+name+" IS NULL OR "+name+" < 0")
		lacking.note("MODIFY "+name+" "+secondsType, no, c.name, c.definition)
	default:
		value := "IF(" + name + " REGEXP '^[0-9]{1,9}$|^[1-3][0-9]{9}$', " + name + ", 0)"
		if c.kind == "datetime" || c.kind == "timestamp" || c.kind == "date" {
			value = "COALESCE(UNIX_TIMESTAMP(" + name + "), 0)"
		}
		lacking.replace(c, secondsType, value, no)
	}
}

// replace puts a column of another type in a column's place, with what an expression makes of its
// values.
func (l *lacks) replace(c column, kind, value, format string) {
	name, fresh := quote(c.name), quote("new_"+c.name)
	l.before = append(l.before, "ALTER TABLE "+l.table+" ADD "+fresh+" "+kind+" AFTER "+name, "UPDATE "+l.table+" SET "+fresh+" = "+value)
	l.replaced = append(l.replaced, strings.ToLower(c.name))
	l.note("DROP "+name+", CHANGE "+fresh+" "+name+" "+kind, format, c.name, c.definition)
}

// judgeWord notes where a column cannot hold any schedule, or any name of a zone.
func judgeWord(lacking *lacks, c column) {
	const enough = 64
	switch {
	case c.isText() && !c.isBytes() && c.length >= enough:
	case c.isText() && !c.isBytes():
		lacking.note("MODIFY "+c.declared(fmt.Sprintf("varchar(%d)", enough)), "column %s (%s) is too short; it needs %d characters", c.name, c.definition, enough)
	default:
		lacking.aside(c, "a text")
	}
}

// judgeNumber notes where a column holds no whole numbers.
func judgeNumber(lacking *lacks, c column) {
	switch c.kind {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint":
	default:
		lacking.aside(c, "a whole number")
	}
}

// aside puts a column aside that means something else to the application, with all that it holds,
// and makes the one that jobd needs.
func (l *lacks) aside(c column, kind string) {
	l.replaced = append(l.replaced, strings.ToLower(c.name))
	l.note("CHANGE "+quote(c.name)+" "+quote("former_"+c.name)+strings.TrimPrefix(c.declared(c.definition), quote(c.name))+", ADD "+quote(c.name)+" "+optionalType(strings.ToLower(c.name)),
		"column %s (%s) is not %s (the statement names it former_%s; if the application needs it as it is, leave it out of use_columns)", c.name, c.definition, kind, c.name)
}

// judgeOrders finds the indexes that claims name, and notes which are missing.
func (t *Table) judgeOrders(found *inspection, lacking *lacks, indexes map[string]index, names map[string]bool) {
	candidates := slices.Sorted(maps.Keys(indexes))
	slices.SortStableFunc(candidates, func(a, b string) int { return indexes[a].part - indexes[b].part })
	find := func(fits func(index) bool) string {
		for _, name := range candidates {
			if one := indexes[name]; fits(one) && !slices.ContainsFunc(one.columns, func(column string) bool { return slices.Contains(lacking.replaced, column) }) {
				return name
			}
		}
		return ""
	}
	behind := indexes["PRIMARY"].columns
	if found.partitioned {
		behind = nil
	}
	add := func(name, columns string) {
		lacking.note("ADD INDEX "+free(name, names)+" ("+columns+")", "it has no index on (%s)", columns)
	}
	if found.byID = find(func(i index) bool { return i.orders("id", false, behind) }); found.byID == "" && found.ordered() {
		add("status_target_idx", found.claimColumns("id"))
	}
	if found.uses.Delays() {
		due := func(i index) bool {
			return i.begins() && len(i.columns) > 2 && i.columns[2] == store.ColumnRunAt && !i.falling[2]
		}
		if found.byDue = find(due); found.byDue == "" {
			add("status_target_run_at_idx", found.claimColumns(store.ColumnRunAt))
		}
	}
	if found.uses.Has(store.ColumnPriority) {
		if !found.version.descends() {
			lacking.indexes = false
			found.Fault("take priority out of use_columns, or use MySQL from 8.0.1 or MariaDB from 10.8",
				"column priority needs an index in descending order, which this server (%s) does not have: with an ascending one each claim would lock all rows of its target that wait", found.version)
		} else if found.byPriority = find(func(i index) bool { return i.orders(store.ColumnPriority, true, behind) }); found.byPriority == "" {
			add("status_target_priority_idx", found.claimColumns("priority DESC, id"))
		}
	}
	unique := func(i index) bool { return i.unique && slices.Contains(i.columns, store.ColumnUniqueKey) }
	if found.uses.Has(store.ColumnUniqueKey) && find(unique) == "" {
		column := quote(store.ColumnUniqueKey)
		if kind := found.columns[store.ColumnUniqueKey].kind; strings.HasSuffix(kind, "text") || strings.HasSuffix(kind, "blob") {
			column += "(190)"
		}
		lacking.note("ADD UNIQUE INDEX "+free("unique_key_idx", names)+" ("+column+")", "no index keeps the values of unique_key unique")
	}
}

// begins tells whether an index finds the rows of a status and a target.
func (i index) begins() bool {
	return len(i.columns) > 1 && slices.Contains(i.columns[:2], "status") && slices.Contains(i.columns[:2], "target")
}

// orders tells whether an index has the rows of a status and a target in the order of a column, and
// then of ids. Each index of InnoDB ends in the primary key, which comes behind it. MariaDB makes
// nothing of that where the index has the beginning of a name only, or the table has partitions: it
// reads all rows of the target, locks and sorts them.
func (i index) orders(column string, falling bool, behind []string) bool {
	if !i.begins() {
		return false
	}
	rest, down := i.columns[2:], i.falling[2:]
	if column != "id" {
		if len(rest) == 0 || rest[0] != column || down[0] != falling {
			return false
		}
		rest, down = rest[1:], down[1:]
	}
	if len(rest) == 0 {
		return i.part == 0 && len(behind) > 0 && behind[0] == "id"
	}
	return rest[0] == "id" && !down[0]
}

// examineTimes reads the indexes. Only the optional columns need some; claims do without.
func (t *Table) examineTimes(ctx context.Context, conn *sql.Conn, found *inspection) error {
	indexes, names, err := t.readIndexes(ctx, conn)
	switch {
	case err == nil:
		t.judgeTimes(found, indexes, names)
	case number(err) != 0 && !found.uses.Any():
		return nil
	}
	return err
}

// examineOptional notes what the optional columns are like. An account with grants on columns is not
// shown those that it may not use: the server tells them from missing ones.
func (t *Table) examineOptional(ctx context.Context, conn *sql.Conn, found *inspection) error {
	found.optional = map[string]column{}
	for _, name := range store.TimeColumns() {
		c, there := found.columns[name]
		switch {
		case !found.uses.Has(name):
			continue
		case there:
			found.optional[name] = c
			continue
		}
		_, err := conn.ExecContext(ctx, "SELECT "+quote(name)+" FROM "+t.name.quoted()+" WHERE 1=0")
		switch number(err) {
		case errDeniedColumn, errDeniedTable:
			return err
		case 0:
			if err != nil {
				return err
			}
		}
	}
	return nil
}

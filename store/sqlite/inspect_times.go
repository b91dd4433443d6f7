package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"jobd/store"
	"jobd/store/internal/rule"
)

// optionalType is how an optional column is made.
func optionalType(name string) string {
	switch name {
	case store.ColumnSchedule, store.ColumnTimeZone, store.ColumnUniqueKey:
		return "TEXT"
	case store.ColumnMaxAttempts, store.ColumnTimeout:
		return "INTEGER"
	}
	return "INTEGER NOT NULL DEFAULT 0"
}

// indexOn is how the index for a column is made, without CREATE. Its name is one that is free.
func indexOn(column, table string, names map[string]bool) string {
	name, kind, columns := table+"_status_target_idx", "INDEX ", "status, target, "+column
	switch column {
	case store.ColumnRunAt:
		name = table + "_status_target_run_at_idx"
	case store.ColumnPriority:
		name, columns = table+"_status_target_priority_idx", "status, target, priority DESC, id"
	case store.ColumnUniqueKey:
		name, kind, columns = table+"_unique_key_idx", "UNIQUE INDEX ", column
	}
	for names[strings.ToLower(name)] {
		name = "jobd_" + name
	}
	return kind + quote(name) + " ON " + quote(table) + " (" + columns + ")"
}

// lacks is what a table lacks for the optional columns, with the statements that mend it.
type lacks struct {
	table      string // its name
	said       []string
	statements []string
}

// note notes something that is lacking.
func (l *lacks) note(mends []string, format string, args ...any) {
	l.said = append(l.said, fmt.Sprintf(format, args...))
	l.statements = append(l.statements, mends...)
}

// inspectTimes refuses a table that lacks what the optional columns need which are jobd's: a word, a
// column, a type, an index. Others are the application's, and nobody looks at them. An index that
// somebody drops under way ends nothing: claims go on without it, and slowly.
func (t *Table) inspectTimes(ctx context.Context, tx *sql.Tx, found *inspection) error {
	if !found.uses.Any() {
		return nil
	}
	lacking := &lacks{table: t.config.Table}
	indexes, err := t.readIndexes(ctx, tx)
	if err == nil && found.uses.Delays() {
		err = t.inspectWord(ctx, tx, found, lacking)
	}
	if err != nil {
		return err
	}
	t.inspectOptional(found, lacking, indexes)
	onlyIndexes := len(lacking.said) == 0
	found.findIndexes(lacking, indexes)
	if len(lacking.said) == 0 {
		return nil
	}
	complain := found.Fault
	if onlyIndexes && t.known.Load() {
		complain = found.Warn
	}
	complain(strings.Join(lacking.statements, "; "), "for the columns of use_columns: %s", strings.Join(lacking.said, "; "))
	return nil
}

// inspectOptional notes which optional columns are missing, and which hold something else.
func (t *Table) inspectOptional(found *inspection, lacking *lacks, indexes []index) {
	var missing, added []string
	table := quote(t.config.Table)
	for _, name := range store.TimeColumns() {
		kind, there := found.types[name]
		switch {
		case !found.uses.Has(name):
		case !there:
			missing = append(missing, name)
			added = append(added, "ALTER TABLE "+table+" ADD COLUMN "+name+" "+optionalType(name))
		case found.generated[name] && slices.Contains(rule.Written("", found.uses), name):
			lacking.note([]string{"make the table anew with a column " + name + " of its own"}, "column %s is generated, so that nobody can write it", name)
		case name == store.ColumnUniqueKey:
			if !found.nullable[name] {
				lacking.note([]string{"make the table anew with unique_key TEXT UNIQUE, and copy the rows"},
					"column %s takes no NULL, which frees the key when a job has ended", name)
			}
		case name == store.ColumnRunAt || name == store.ColumnPlannedAt:
			if !strings.Contains(kind, "INT") {
				lacking.replace(name, indexes, "column %s (%s) holds no whole numbers, which unix seconds are", name, kind)
			} else if found.nullable[name] {
				lacking.replace(name, indexes, "column %s (%s) takes NULL, at which no row is ever due; 0 is what it holds for no time", name, kind)
			}
		case name == store.ColumnSchedule || name == store.ColumnTimeZone:
			if kind != "" && !strings.Contains(kind, "CHAR") && !strings.Contains(kind, "TEXT") && !strings.Contains(kind, "CLOB") {
				lacking.aside(name, "column %s (%s) is not a text", name, kind)
			}
		case !strings.Contains(kind, "INT"):
			lacking.aside(name, "column %s (%s) is not a whole number", name, kind)
		}
	}
	if len(missing) > 0 {
		lacking.note(added, "it has no column %s", strings.Join(missing, ", "))
	}
}

// replace puts a column of unix seconds in a column's place. What reads as a date becomes its
// seconds.
func (l *lacks) replace(name string, indexes []index, format string, args ...any) {
	table, fresh := quote(l.table), quote("new_"+name)
	steps := []string{
		"BEGIN", "ALTER TABLE " + table + " ADD COLUMN " + fresh + " " + optionalType(name),
		"UPDATE " + table + " SET " + fresh + " = COALESCE(CASE typeof(" + name + ") WHEN 'integer' THEN MAX(" + name + ", 0) ELSE CAST(strftime('%s', " + name + ") AS INTEGER) END, 0)",
	}
	for i, one := range indexes {
		if slices.Contains(one.columns, name) {
			steps = append(steps, "DROP INDEX "+quote(one.name))
			indexes[i].columns = nil // it serves nobody any more
		}
	}
	l.note(append(steps, "ALTER TABLE "+table+" DROP COLUMN "+name, "ALTER TABLE "+table+" RENAME COLUMN "+fresh+" TO "+name, "COMMIT"), format, args...)
}

// aside puts a column aside that means something else to the application, with all that it holds,
// and makes the one that jobd needs.
func (l *lacks) aside(name, format string, args ...any) {
	table := quote(l.table)
	l.note([]string{
		"ALTER TABLE " + table + " RENAME COLUMN " + name + " TO " + quote("former_"+name),
		"ALTER TABLE " + table + " ADD COLUMN " + name + " " + optionalType(name),
	}, format+" (the statements name it former_%s; if the application needs it as it is, leave it out of use_columns)", append(args, name)...)
}

// inspectWord notes a CHECK of the status that lacks the word. SQLite changes none: the table is made
// anew.
func (t *Table) inspectWord(ctx context.Context, tx *sql.Tx, found *inspection, lacking *lacks) error {
	place := checkOf.FindStringSubmatchIndex(found.sql)
	if place == nil || strings.Contains(found.sql[place[2]:place[3]], "'delayed'") {
		return nil
	}
	table, former := quote(t.config.Table), quote(t.config.Table+"_former")
	steps := []string{
		"PRAGMA legacy_alter_table = ON", "BEGIN", "ALTER TABLE " + table + " RENAME TO " + former,
		found.sql[:place[3]] + ",'delayed'" + found.sql[place[3]:],
		"INSERT INTO " + table + " SELECT * FROM " + former,
	}
	if strings.Contains(strings.ToUpper(found.sql), "AUTOINCREMENT") {
		name := "'" + strings.ReplaceAll(t.config.Table, "'", "''")
		steps = append(steps, "UPDATE sqlite_sequence SET seq = (SELECT seq FROM sqlite_sequence WHERE name = "+name+"_former') WHERE name = "+name+"'")
	}
	steps = append(steps, "DROP TABLE "+former)
	rows, err := tx.QueryContext(ctx, "SELECT sql FROM sqlite_schema WHERE tbl_name = ? COLLATE NOCASE AND type IN ('index', 'trigger') AND sql IS NOT NULL", t.config.Table)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		steps = append(steps, text)
	}
	lacking.note(append(steps, "COMMIT", "PRAGMA legacy_alter_table = OFF"), "the CHECK of column status lacks the word delayed")
	return rows.Err()
}

// index is an index of the table.
type index struct {
	name    string
	columns []string // in lower case; "" for an expression
	falling []bool
	unique  bool
	partial bool
}

// readIndexes reads the indexes of the table, in the order of their names.
func (t *Table) readIndexes(ctx context.Context, tx *sql.Tx) (list []index, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT list.name, list."unique", list.partial, COALESCE(LOWER(info.name), ''), info.desc
		FROM pragma_index_list(?) AS list, pragma_index_xinfo(list.name) AS info WHERE info.key ORDER BY list.name, info.seqno`, t.config.Table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one index
		var column string
		var falling bool
		if err := rows.Scan(&one.name, &one.unique, &one.partial, &column, &falling); err != nil {
			return nil, err
		}
		if n := len(list); n == 0 || list[n-1].name != one.name {
			list = append(list, one)
		}
		last := &list[len(list)-1]
		last.columns, last.falling = append(last.columns, column), append(last.falling, falling)
	}
	return list, rows.Err()
}

// findIndexes finds the indexes that claims name, and notes which are missing.
func (i *inspection) findIndexes(lacking *lacks, indexes []index) {
	names := map[string]bool{}
	for _, one := range indexes {
		names[strings.ToLower(one.name)] = true
	}
	find := func(fits func(index) bool) string {
		for _, one := range indexes {
			if fits(one) {
				return one.name
			}
		}
		return ""
	}
	if i.ordered() {
		i.byID = find(func(one index) bool { return one.orders("id", false) })
	}
	if i.uses.Delays() {
		if i.byDue = find(func(one index) bool { return one.orders(store.ColumnRunAt, false) }); i.byDue == "" {
			lacking.note([]string{"CREATE " + indexOn(store.ColumnRunAt, lacking.table, names)}, "it has no index on (status, target, run_at)")
		}
	}
	if i.uses.Has(store.ColumnPriority) {
		falling := func(one index) bool {
			return one.orders(store.ColumnPriority, true) && (len(one.columns) == 3 || one.columns[3] == "id" && !one.falling[3])
		}
		if i.byPriority = find(falling); i.byPriority == "" {
			lacking.note([]string{"CREATE " + indexOn(store.ColumnPriority, lacking.table, names)}, "it has no index on (status, target, priority DESC, id)")
		}
	}
	unique := func(one index) bool { return one.unique && slices.Contains(one.columns, store.ColumnUniqueKey) }
	if i.uses.Has(store.ColumnUniqueKey) && find(unique) == "" {
		lacking.note([]string{"CREATE " + indexOn(store.ColumnUniqueKey, lacking.table, names)}, "no index keeps the values of unique_key unique")
	}
}

// orders tells whether an index has the rows of a status and a target in the order of a column.
func (i index) orders(column string, falling bool) bool {
	return !i.partial && len(i.columns) > 2 && slices.Contains(i.columns[:2], "status") && slices.Contains(i.columns[:2], "target") &&
		i.columns[2] == column && i.falling[2] == falling
}

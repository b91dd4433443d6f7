package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"jobd/store"
	"jobd/store/internal/rule"
)

// inspect looks at the table, and changes nothing.
func (t *Table) inspect(ctx context.Context, tx *sql.Tx) (*inspection, error) {
	found := &inspection{
		layout: layout{nullable: map[string]bool{}, times: times{uses: t.config.Uses}}, generated: map[string]bool{}, types: map[string]string{},
		Findings: rule.Findings{Table: "table " + quote(t.config.Table) + " in " + t.path},
	}
	steps := []func(context.Context, *sql.Tx, *inspection) error{
		t.inspectKind, t.inspectColumns, t.inspectTimes, t.inspectIndexes,
	}
	for _, step := range steps {
		if err := step(ctx, tx, found); err != nil {
			return found, err
		}
		if found.IsFaulty() {
			break
		}
	}
	return found, nil
}

// checkOf finds the words that a CHECK allows to the status.
var checkOf = regexp.MustCompile("(?is)CHECK\\s*\\(\\s*[\"`\\[]?status[\"`\\]]?\\s+IN\\s*\\(([^)]*)\\)")

// inspectKind refuses a file without the table, and a view; it warns of a CHECK that lacks a word.
func (t *Table) inspectKind(ctx context.Context, tx *sql.Tx, found *inspection) error {
	var kind, text string
	err := tx.QueryRowContext(ctx, "SELECT type, COALESCE(sql, '') FROM sqlite_schema WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE", t.config.Table).Scan(&kind, &text)
	switch {
	case err == sql.ErrNoRows:
		found.Fault("name the table in it (mysql_table), or a new file (sqlite_path)", "the file has other content, but no such table")
		return nil
	case err != nil:
		return err
	case kind == "view":
		found.Fault("name in mysql_table the table that the view reads", "it is a view, of which rows can't be claimed")
		return nil
	}
	found.sql = text
	allowed := checkOf.FindStringSubmatch(text)
	if allowed == nil {
		return nil
	}
	for _, word := range store.Statuses(nil) {
		if !strings.Contains(allowed[1], "'"+word+"'") {
			found.Warn("make the table anew with that word in the CHECK, and copy the rows", "the CHECK of column status lacks the word %s: rows that get it are refused", word)
		}
	}
	return nil
}

// inspectColumns refuses a table without a column that it needs, or with one that nobody can write.
func (t *Table) inspectColumns(ctx context.Context, tx *sql.Tx, found *inspection) error {
	const virtual, stored = 2, 3
	rows, err := tx.QueryContext(ctx, `SELECT name, "notnull", hidden, UPPER(type) FROM pragma_table_xinfo(?)`, t.config.Table)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, kind string
		var notNull bool
		var hidden int
		if err := rows.Scan(&name, &notNull, &hidden, &kind); err != nil {
			return err
		}
		found.types[strings.ToLower(name)] = kind
		found.nullable[strings.ToLower(name)] = !notNull
		found.generated[strings.ToLower(name)] = hidden == virtual || hidden == stored
	}
	t.judgeMissing(found)
	t.judgeOwner(found)
	for _, name := range rule.Written(t.config.ClaimColumn, nil) {
		if found.generated[strings.ToLower(name)] {
			found.Fault("make the table anew with a column of its own", "column %s is generated, so that nobody can write it", name)
		}
	}
	return rows.Err()
}

// judgeOwner refuses an owner column that holds something else.
func (t *Table) judgeOwner(found *inspection) {
	own := slices.ContainsFunc(t.config.Uses, func(name string) bool { return strings.EqualFold(name, t.config.ClaimColumn) })
	if own || store.IsTaken(t.config.ClaimColumn) {
		found.TakenOwner(strings.ToLower(t.config.ClaimColumn), "ALTER TABLE "+quote(t.config.Table)+" ADD COLUMN", "TEXT")
	}
}

// judgeMissing notes the columns that are missing, with the statements that add them. Rows that are
// there when status is added are not to be run.
func (t *Table) judgeMissing(found *inspection) {
	missing := rule.Missing(t.config.ClaimColumn, nil, func(name string) bool { _, there := found.nullable[name]; return there })
	table := quote(t.config.Table)
	var added []string
	for _, name := range missing {
		add := "ALTER TABLE " + table + " ADD COLUMN "
		switch name {
		case "id": // none can be added that is a key
		case "status":
			added = append(added, "BEGIN", add+"status TEXT NOT NULL DEFAULT 'waiting'", "UPDATE "+table+" SET status = 'ignored'", "COMMIT")
		case "target":
			added = append(added, add+quote(name)+" TEXT NOT NULL DEFAULT ''")
		case "time_created", "time_started", "time_finished":
			added = append(added, add+quote(name)+" INTEGER NOT NULL DEFAULT 0")
		case "return_code":
			added = append(added, add+quote(name)+" INTEGER")
		default:
			added = append(added, add+quote(name)+" TEXT")
		}
	}
	if slices.Contains(missing, "id") {
		added = []string{"make the table anew with id INTEGER PRIMARY KEY AUTOINCREMENT, and copy the rows"}
	}
	if len(missing) > 0 {
		found.Fault(strings.Join(added, "; "), "it has no column %s", strings.Join(missing, ", "))
	}
}

// inspectIndexes warns where every claim would read the whole table, or two rows may have one id.
func (t *Table) inspectIndexes(ctx context.Context, tx *sql.Tx, found *inspection) error {
	rows, err := tx.QueryContext(ctx, `SELECT list.name, list."unique", list.partial, COALESCE(GROUP_CONCAT(LOWER(info.name) ORDER BY info.seqno), '')
		FROM pragma_index_list(?) AS list, pragma_index_info(list.name) AS info GROUP BY list.name`, t.config.Table)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, helpful, unique := map[string]bool{}, false, false
	for rows.Next() {
		var name, columns string
		var isUnique, partial bool
		if err := rows.Scan(&name, &isUnique, &partial, &columns); err != nil {
			return err
		}
		names[strings.ToLower(name)] = true
		leading := columns + ","
		helpful = helpful || !partial && (strings.HasPrefix(leading, "status,target,") || strings.HasPrefix(leading, "target,status,"))
		unique = unique || isUnique && !partial && columns == "id"
	}
	if err := rows.Err(); err != nil {
		return err
	}
	var keys int
	if err := tx.QueryRowContext(ctx, `SELECT COALESCE(SUM(pk AND LOWER(name) = 'id' AND UPPER(type) = 'INTEGER') * (SUM(pk > 0) = 1), 0) FROM pragma_table_info(?)`, t.config.Table).Scan(&keys); err != nil {
		return err
	}
	free := func(name string) string {
		for names[strings.ToLower(name)] {
			name = "jobd_" + name
		}
		return quote(name)
	}
	if !helpful {
		found.Warn("CREATE INDEX "+free(t.config.Table+"_status_target_idx")+" ON "+quote(t.config.Table)+" (status, target, id)",
			"no index helps claims, each one reads the whole table")
	}
	if !unique && keys == 0 {
		found.Warn("CREATE UNIQUE INDEX "+free(t.config.Table+"_id_idx")+" ON "+quote(t.config.Table)+" (id)",
			"nothing keeps two rows from having the same id: they would be one job, and each update reads the whole table")
	}
	return nil
}

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

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"jobd/journal"
	"jobd/store"
)

// inspection is an examination of the table: what it is like, and what is wrong with it.
type inspection struct {
	layout
	where     string
	generated map[string]bool // columns that SQLite computes, by name in lower case
	findings  []store.Finding
}

func (i *inspection) note(severity store.Severity, remedy, format string, args ...any) {
	i.findings = append(i.findings, store.Finding{Severity: severity, Where: i.where, What: fmt.Sprintf(format, args...), Remedy: remedy})
}

// inspect looks at the table, and changes nothing.
func (t *Table) inspect(ctx context.Context, tx *sql.Tx) (*inspection, error) {
	found := &inspection{
		layout: layout{nullable: map[string]bool{}}, generated: map[string]bool{},
		where: "table " + quote(t.config.Table) + " in " + t.path,
	}
	steps := []func(context.Context, *sql.Tx, *inspection) error{
		t.inspectKind, t.inspectColumns, t.inspectIndexes, t.inspectTriggers,
	}
	for _, step := range steps {
		if err := step(ctx, tx, found); err != nil {
			return found, err
		}
		if slices.ContainsFunc(found.findings, func(f store.Finding) bool { return f.Severity == store.Fault }) {
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
		found.note(store.Fault, "name the table in it (mysql_table), or a new file (sqlite_path)", "the file has other content, but no such table")
		return nil
	case err != nil:
		return err
	case kind == "view":
		found.note(store.Fault, "name in mysql_table the table that the view reads", "it is a view, of which rows can't be claimed")
		return nil
	}
	allowed := checkOf.FindStringSubmatch(text)
	if allowed == nil {
		return nil
	}
	for _, word := range []string{journal.RowWaiting, journal.RowManual, journal.RowAccepted, journal.RowRunning, journal.RowDone, journal.RowIgnored} {
		if !strings.Contains(allowed[1], "'"+word+"'") {
			found.note(store.Warning, "make the table anew with that word in the CHECK, and copy the rows", "the CHECK of column status lacks the word %s: rows that get it are refused", word)
		}
	}
	return nil
}

// inspectColumns refuses a table without a column that it needs, or with one that nobody can write.
func (t *Table) inspectColumns(ctx context.Context, tx *sql.Tx, found *inspection) error {
	const virtual, stored = 2, 3
	rows, err := tx.QueryContext(ctx, `SELECT name, "notnull", hidden FROM pragma_table_xinfo(?)`, t.config.Table)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var notNull bool
		var hidden int
		if err := rows.Scan(&name, &notNull, &hidden); err != nil {
			return err
		}
		found.nullable[strings.ToLower(name)] = !notNull
		found.generated[strings.ToLower(name)] = hidden == virtual || hidden == stored
	}
	t.judgeMissing(found)
	t.judgeOwner(found)
	for _, name := range t.writtenColumns() {
		if found.generated[strings.ToLower(name)] {
			found.note(store.Fault, "make the table anew with a column of its own", "column %s is generated, so that nobody can write it", name)
		}
	}
	return rows.Err()
}

// judgeOwner refuses an owner column that holds something else.
func (t *Table) judgeOwner(found *inspection) {
	if store.IsTaken(t.config.ClaimColumn) {
		found.note(store.Fault, "name in claim_column a column of its own for the tokens: ALTER TABLE "+quote(t.config.Table)+" ADD COLUMN jobd_claim TEXT",
			"column %s holds something else, which claims would overwrite with their tokens", strings.ToLower(t.config.ClaimColumn))
	}
}

// writtenColumns are the columns that jobd writes.
func (t *Table) writtenColumns() []string {
	names := []string{"status", "time_started", "time_finished", "result", "return_code", sigColumn, "stdout", "stderr", t.config.ClaimColumn}
	slices.Sort(names)
	return slices.Compact(names)
}

// judgeMissing notes the columns that are missing, with the statements that add them. Rows that are there when status is
// added are not to be run.
func (t *Table) judgeMissing(found *inspection) {
	required := [][2]string{
		{"id", ""},
		{"target", "TEXT NOT NULL DEFAULT ''"},
		{"time_created", "INTEGER NOT NULL DEFAULT 0"},
		{"time_started", "INTEGER NOT NULL DEFAULT 0"},
		{"time_finished", "INTEGER NOT NULL DEFAULT 0"},
		{"status", "TEXT NOT NULL DEFAULT 'waiting'"},
		{"result", "TEXT"},
		{"return_code", "INTEGER"},
		{sigColumn, "TEXT"},
		{"stdout", "TEXT"},
		{"stderr", "TEXT"},
		{t.config.ClaimColumn, "TEXT"},
	}
	table := quote(t.config.Table)
	var missing, added []string
	for _, column := range required {
		name := column[0]
		if _, there := found.nullable[strings.ToLower(name)]; there || slices.Contains(missing, name) {
			continue
		}
		missing = append(missing, name)
		switch name {
		case "id": // none can be added that is a key
		case "status":
			added = append(added, "BEGIN", "ALTER TABLE "+table+" ADD COLUMN status "+column[1], "UPDATE "+table+" SET status = 'ignored'", "COMMIT")
		default:
			added = append(added, "ALTER TABLE "+table+" ADD COLUMN "+quote(name)+" "+column[1])
		}
	}
	if slices.Contains(missing, "id") {
		added = []string{"make the table anew with id INTEGER PRIMARY KEY AUTOINCREMENT, and copy the rows"}
	}
	if len(missing) > 0 {
		found.note(store.Fault, strings.Join(added, "; "), "it has no column %s", strings.Join(missing, ", "))
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
		found.note(store.Warning, "CREATE INDEX "+free(t.config.Table+"_status_target_idx")+" ON "+quote(t.config.Table)+" (status, target, id)",
			"no index helps claims, each one reads the whole table")
	}
	if !unique && keys == 0 {
		found.note(store.Warning, "CREATE UNIQUE INDEX "+free(t.config.Table+"_id_idx")+" ON "+quote(t.config.Table)+" (id)",
			"nothing keeps two rows from having the same id: they would be one job, and each update reads the whole table")
	}
	return nil
}

// inspectTriggers warns of triggers that write, at an update, what jobd writes.
func (t *Table) inspectTriggers(ctx context.Context, tx *sql.Tx, found *inspection) error {
	rows, err := tx.QueryContext(ctx, "SELECT name, COALESCE(sql, '') FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE", t.config.Table)
	if err != nil {
		return err
	}
	defer rows.Close()
	table := regexp.QuoteMeta(t.config.Table)
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return err
		}
		for _, column := range t.writtenColumns() {
			writes := regexp.MustCompile("(?is)\\bUPDATE\\b.*\\bBEGIN\\b.*\\bUPDATE\\s+[\"`\\[]?" + table + "[\"`\\]]?\\s+SET\\b[^;]*\\b" + regexp.QuoteMeta(column) + "[\"`\\]]?\\s*=")
			if writes.MatchString(text) {
				found.note(store.Warning, "", "its trigger %s may write column %s during an update of jobd's, which then reads as somebody else's: let it leave such rows alone, or DROP TRIGGER %s",
					name, column, quote(name))
				break
			}
		}
	}
	return rows.Err()
}

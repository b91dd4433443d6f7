package sqlite

import (
	"context"
	"database/sql"
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

package sqlite

import (
	"context"
	"database/sql"
	"math"
	"regexp"
	"strings"

	"jobd/store"
	"jobd/store/internal/rule"
)

// inspect looks at the table, and changes nothing.
func (t *Table) inspect(ctx context.Context, tx *sql.Tx) (*inspection, error) {
	found := &inspection{
		layout:   layout{t.shape()},
		Findings: rule.Findings{Table: "table " + quote(t.config.Table) + " in " + t.path},
	}
	for _, step := range []func(context.Context, *sql.Tx, *inspection) error{t.inspectKind, t.inspectColumns, t.inspectIndexes} {
		if err := step(ctx, tx, found); err != nil || found.IsFaulty() {
			return found, err
		}
	}
	return found, nil
}

// checkOf finds the words that a CHECK allows to the status, word one of them.
var (
	checkOf = regexp.MustCompile("(?is)CHECK\\s*\\(\\s*[\"`\\[]?status[\"`\\]]?\\s+IN\\s*\\(([^)]*)\\)")
	word    = regexp.MustCompile("'([^']*)'")
)

// inspectKind refuses a file without the table, and a view. It reads the words of the status.
func (t *Table) inspectKind(ctx context.Context, tx *sql.Tx, found *inspection) error {
	var kind, text string
	err := tx.QueryRowContext(ctx, "SELECT type, COALESCE(sql, '') FROM sqlite_schema WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE", t.config.Table).Scan(&kind, &text)
	switch {
	case err == sql.ErrNoRows:
		found.Fault("name the table in it (mysql_table), or a new file (sqlite_path)", "the file exists, but has no such table")
		return nil
	case err != nil:
		return err
	case kind == "view":
		found.Fault("set mysql_table to the table that the view reads", "it is a view, of which rows can't be claimed")
		return nil
	}
	if allowed := checkOf.FindStringSubmatch(text); allowed != nil {
		for _, one := range word.FindAllStringSubmatch(allowed[1], -1) {
			found.statuses = append(found.statuses, one[1])
		}
	}
	return nil
}

// needed is what the table needs. SQLite changes no column, and no CHECK.
func (t *Table) needed() *rule.Needed {
	table := quote(t.config.Table)
	return &rule.Needed{
		Table: table, Owner: t.config.ClaimColumn, Worker: t.config.Worker, Uses: t.config.Uses, Loose: true, Quote: quote,
		Add: func(name string) string {
			add := "ALTER TABLE " + table + " ADD COLUMN " + quote(name) + " " + typeOf(name)
			switch name {
			case "id":
				return "make the table anew with id " + typeOf(name) + ", and copy the rows"
			case "target":
				return add + " DEFAULT ''"
			case "status": // rows that are there are not to be run
				return "BEGIN; " + add + " DEFAULT 'waiting'; UPDATE " + table + " SET status = 'ignored'; COMMIT"
			}
			return add
		},
		Change: func(_ rule.Column, need rule.Need) string {
			if len(need.Words) > 0 {
				return "make the table anew with these words in the CHECK of " + need.Name + ", and copy the rows"
			}
			return ""
		},
		Index: func(unique bool, name, columns string) string {
			kind := "CREATE INDEX "
			if unique {
				kind = "CREATE UNIQUE INDEX "
			}
			return kind + quote(t.config.Table+"_"+name) + " ON " + table + " (" + columns + ")"
		},
	}
}

// typeOf is how a column is made.
func typeOf(name string) string {
	_, kind := rule.TypeOf(name, nil)
	return kind
}

// inspectColumns judges the columns.
func (t *Table) inspectColumns(ctx context.Context, tx *sql.Tx, found *inspection) error {
	const virtual, stored = 2, 3
	const query = `SELECT name, "notnull", hidden, UPPER(type), pk FROM pragma_table_xinfo(?)`
	keys := 0
	err := rule.Each(ctx, tx, query, []any{t.config.Table}, func(scan func(...any) error) error {
		c := rule.Column{Holds: rule.Other, Least: math.MinInt64, Most: math.MaxInt64, Length: math.MaxInt32}
		var notNull bool
		var hidden, key int
		err := scan(&c.Name, &notNull, &hidden, &c.Declared, &key)
		name := strings.ToLower(c.Name)
		switch {
		case strings.Contains(c.Declared, "INT"):
			c.Holds = rule.Number
		case c.Declared == "", strings.Contains(c.Declared, "CHAR"), strings.Contains(c.Declared, "TEXT"), strings.Contains(c.Declared, "CLOB"):
			c.Holds = rule.Text
		}
		switch name {
		case "status":
			c.Words = found.statuses
		case "result":
			c.Holds = rule.Words // its CHECK allows nothing else
		}
		if key > 0 {
			keys++
			found.keyed = found.keyed || name == "id" && c.Declared == "INTEGER"
		}
		c.Nullable, c.Generated = !notNull, hidden == virtual || hidden == stored
		found.Columns[name] = c
		return err
	})
	found.keyed = found.keyed && keys == 1
	t.needed().Judge(&found.Findings, found.Columns)
	if _, there := found.Columns[store.ColumnWorkload]; err == nil && t.config.Submits && !there {
		found.Fault("ALTER TABLE "+quote(t.config.Table)+" ADD COLUMN workload BLOB", "it has no column workload, which gearman_listen needs")
	}
	if err == nil && t.config.Submits && !found.keyed { // what is inserted is known by its rowid
		found.Fault(t.needed().Add("id"), "its id is not declared INTEGER PRIMARY KEY, which gearman_listen needs")
	}
	if err != nil || found.Columns["status"].Name == "" {
		return err
	}
	return t.inspectCollation(ctx, tx, found)
}

// inspectCollation refuses a status that compares as something other than its bytes: to SQLite rows of
// `WAITING` or `waiting ` would count as waiting, and to nobody else, so that nothing behind them ran.
func (t *Table) inspectCollation(ctx context.Context, tx *sql.Tx, found *inspection) error {
	// Words that come behind the column in one list are compared as the column is.
	words := "SELECT status FROM " + quote(t.config.Table) + " WHERE 0 UNION ALL SELECT 'WAITING' UNION ALL SELECT 'waiting '"
	var alike bool
	err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM ("+words+") WHERE status = 'waiting')").Scan(&alike)
	if alike {
		found.Fault("make the table anew with a status without COLLATE, and copy the rows",
			"column status takes other texts for the same word (WAITING, a trailing space): rows with these would stop their target")
	}
	return err
}

// inspectIndexes finds the indexes that claims name. The rowid, which is the key, is none of them.
func (t *Table) inspectIndexes(ctx context.Context, tx *sql.Tx, found *inspection) error {
	indexes, err := t.readIndexes(ctx, tx)
	if err != nil {
		return err
	}
	var behind []string
	if found.keyed {
		behind = []string{"id"}
		indexes = append(indexes, rule.Index{Name: "rowid", Columns: behind, Falling: []bool{false}, Unique: true})
	}
	found.Chosen = t.needed().JudgeIndexes(&found.Findings, indexes, behind, true, "target")
	found.Unindexed = found.NotClaimed()
	return nil
}

// readIndexes reads the indexes of all rows, in the order of their names.
func (t *Table) readIndexes(ctx context.Context, tx *sql.Tx) (list []rule.Index, err error) {
	const query = `SELECT list.name, list."unique", COALESCE(LOWER(info.name), ''), info.desc
		FROM pragma_index_list(?) AS list, pragma_index_xinfo(list.name) AS info WHERE info.key AND NOT list.partial ORDER BY list.name, info.seqno`
	err = rule.Each(ctx, tx, query, []any{t.config.Table}, func(scan func(...any) error) error {
		var one rule.Index
		var column string
		var falling bool
		err := scan(&one.Name, &one.Unique, &column, &falling)
		if n := len(list); n == 0 || list[n-1].Name != one.Name {
			list = append(list, one)
		}
		last := &list[len(list)-1]
		last.Columns, last.Falling = append(last.Columns, column), append(last.Falling, falling)
		return err
	})
	return list, err
}

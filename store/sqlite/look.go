package sqlite

import (
	"context"
	"slices"
	"strconv"
	"time"

	"jobd/store"
	"jobd/store/internal/rule"
)

// reader answers questions about rows.
func (t *Table) reader() rule.Reader {
	return rule.Reader{
		Uses:   t.config.Uses,
		Client: func(context.Context) (func(), error) { return func() {}, nil },
		Names: func(_ context.Context, _ string, names []string) ([]string, error) {
			return slices.Compact(slices.Sorted(slices.Values(names))), nil
		},
		Ask: func(ctx context.Context, op string, _ time.Duration, query rule.Query, row rule.Row) error {
			found, err := t.examined(ctx)
			if err != nil {
				return err
			}
			return t.fail(op, t.ask(ctx, &found.Shape, query, row))
		},
	}
}

// ask asks one query. The one connection is given back before anybody looks into an error.
func (t *Table) ask(ctx context.Context, s *rule.Shape, query rule.Query, row rule.Row) error {
	conn, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	text, args := query(s)
	results, err := conn.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer results.Close()
	for results.Next() {
		if err := row(results.Scan); err != nil {
			return err
		}
	}
	return results.Err()
}

// shape is how the table says things. In SQLite any value may stand in any column: a time that is no
// number is beyond all others, and a count negative, so that somebody tells what is wrong with the row.
func (t *Table) shape() rule.Shape {
	return rule.Shape{
		Columns: map[string]rule.Column{}, Uses: t.config.Uses, Table: quote(t.config.Table),
		Owner: t.config.ClaimColumn, Worker: t.config.Worker, AnID: " AND " + anID,
		Now: "unixepoch()", Clock: "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
		Code: "CASE typeof(return_code) WHEN 'integer' THEN return_code END", By: by, Quote: quote, Output: output,
		Text:    func(column, none string) string { return "COALESCE(CAST(" + column + " AS TEXT), '" + none + "')" },
		Seconds: func(column string) string { return "COALESCE(CAST(" + column + " AS INTEGER), 0)" },
		Number: func(name string) string {
			odd := "-1"
			switch name {
			case store.ColumnRunAt, store.ColumnPlannedAt:
				odd = "9223372036854775807"
			case store.ColumnPriority:
				odd = "0"
			}
			return "CASE typeof(" + name + ") WHEN 'integer' THEN " + name + " WHEN 'null' THEN 0 WHEN 'real' THEN CAST(" + name + " AS INTEGER) ELSE " + odd + " END"
		},
		Long: func(name string) string { return "COALESCE(SUBSTR(CAST(" + name + " AS TEXT), 1, 1000), '')" },
		Tail: func(column string, bytes int) (size, end string) {
			blob := "CAST(" + column + " AS BLOB)"
			return "COALESCE(LENGTH(" + blob + "), 0)", "COALESCE(SUBSTR(" + blob + ", " + strconv.Itoa(-max(bytes, 1)) + "), '')"
		},
	}
}

// find reads rows as Judge needs them; those that do not exist are absent.
func (t *Table) find(ctx context.Context, found *layout, ids []int64) (map[int64]*rule.Found, error) {
	rows := make(map[int64]*rule.Found, len(ids))
	err := t.ask(ctx, &found.Shape, func(s *rule.Shape) (string, []any) {
		return s.SelectSeen("") + " WHERE id IN (" + rule.List(ids) + ")", nil
	}, func(scan func(...any) error) error {
		row := &rule.Found{}
		err := found.ScanSeen(scan, row)
		rows[row.Job] = row
		return err
	})
	return rows, err
}

// Waiting implements store.Table. It reads what is committed, beside any writer: what another
// transaction is about to insert is for nobody to see before. A claim waits for such a transaction,
// so none of its rows is hidden from a claim that comes after it. Rows that are due wait, too.
func (t *Table) Waiting(ctx context.Context, targets []string, except []int64) (waiting []string, err error) {
	seen, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	among := func(index, condition string) string {
		return "EXISTS (SELECT 1 FROM " + quote(t.config.Table) + by(index) + " WHERE " + condition + " AND id NOT IN (" + rule.List(except) + "))"
	}
	query, args := "SELECT "+among(seen.ByID, "status = 'waiting' AND target = ? AND "+anID), []any{nil}
	if seen.Uses.Delays() {
		query, args = query+" OR "+among(seen.ByDue, isDue), []any{nil, nil, now()}
	}
	for _, target := range slices.Compact(slices.Sorted(slices.Values(targets))) {
		var found bool
		args[0], args[min(1, len(args)-1)] = target, target
		if err := t.db.QueryRowContext(ctx, query, args...).Scan(&found); err != nil {
			return nil, t.fail("look for waiting jobs", err)
		}
		if found {
			waiting = append(waiting, target)
		}
	}
	return waiting, nil
}

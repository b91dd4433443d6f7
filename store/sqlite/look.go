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
			found, err := t.layout.Get(ctx)
			if err != nil {
				return err
			}
			return t.Fail(op, t.ask(ctx, &found.Shape, query, row))
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
	return rule.Each(ctx, conn, text, args, row)
}

// anID is the condition that a row's id is one to us.
const anID = "typeof(id) = 'integer' AND id <> 0"

// shape is how the table says things. In SQLite any value may stand in any column: a time that is no
// number is beyond all others, and a count negative, so that somebody tells what is wrong with the row.
func (t *Table) shape() rule.Shape {
	return rule.Shape{
		Columns: map[string]rule.Column{}, Uses: t.config.Uses, Table: quote(t.config.Table),
		Owner: t.config.ClaimColumn, Worker: t.config.Worker, AnID: " AND " + anID,
		Now: "unixepoch()", Clock: "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
		Code: "CASE typeof(return_code) WHEN 'integer' THEN return_code END", Hint: " INDEXED BY %s", Quote: quote, Output: output, Splits: true,
		Limit:   "? + 0", // a statement with a bare ? is prepared again for each value
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

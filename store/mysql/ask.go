package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// waitingLimit is how many targets are asked for in one packet.
const waitingLimit = 100

// ask asks the server the same of each name, in one round trip: the condition may begin with the
// name as its argument so many times as mentions says; further arguments follow.
func (t *Table) ask(ctx context.Context, names []string, condition func(name string) (text string, args []any), mentions int,
	answer func(name string, yes bool),
) error {
	if len(names) == 0 {
		return nil
	}
	var query strings.Builder
	var args []any
	for i, name := range names {
		if i > 0 {
			query.WriteString(" UNION ALL ")
		}
		text, more := condition(name)
		fmt.Fprintf(&query, "SELECT %d, %s", i, text)
		for range mentions {
			args = append(args, name)
		}
		args = append(args, more...)
	}
	return t.retry(ctx, func() error {
		return t.each(ctx, query.String(), args, func(results *sql.Rows) error {
			var place int
			var yes bool
			err := results.Scan(&place, &yes)
			if err == nil {
				answer(names[place], yes)
			}
			return err
		})
	})
}

// each reads all rows of a query, which may be several statements.
func (t *Table) each(ctx context.Context, query string, args []any, row func(*sql.Rows) error) error {
	results, err := t.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer results.Close()
	for {
		for results.Next() {
			if err := row(results); err != nil {
				return err
			}
		}
		if !results.NextResultSet() {
			return results.Err()
		}
	}
}

package rule

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Querier is what can be asked: a pool, a connection, a transaction.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Each reads all rows of a query, which may be several statements.
func Each(ctx context.Context, db Querier, query string, args []any, row Row) error {
	results, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer results.Close()
	for {
		for results.Next() {
			if err := row(results.Scan); err != nil {
				return err
			}
		}
		if !results.NextResultSet() {
			return results.Err()
		}
	}
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

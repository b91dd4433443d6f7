package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// Names implements store.Table. The column takes any name; which ones it takes for the same is up
// to its collation.
func (t *Table) Names(ctx context.Context, names []string) (unfit map[string]string, err error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	unfit, err = t.alike(ctx, t.db, names)
	return unfit, t.fail("compare the names of targets", err)
}

// querier is a connection, or a transaction of one.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// alike gives, of names that the column takes for the same, all but the first, each with its fault in
// words.
func (t *Table) alike(ctx context.Context, db querier, names []string) (unfit map[string]string, err error) {
	unfit = map[string]string{}
	if len(names) < 2 {
		return unfit, nil
	}
	// Names that come behind the column in one list are compared as the column is.
	list := "SELECT 0 AS place, target AS name FROM " + quote(t.config.Table) + " WHERE 0"
	var args []any
	for i, name := range names {
		list += fmt.Sprintf(" UNION ALL SELECT %d, ?", i)
		args = append(args, name)
	}
	query := "WITH served AS (" + list + ") SELECT MIN(earlier.place), later.place FROM served AS earlier JOIN served AS later " +
		"ON earlier.name = later.name AND earlier.place < later.place GROUP BY later.place"
	results, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	for results.Next() {
		var earlier, later int
		if err := results.Scan(&earlier, &later); err != nil {
			return nil, err
		}
		if names[earlier] != names[later] {
			unfit[names[later]] = fmt.Sprintf("the column target takes it for %q, which is served", names[earlier])
		}
	}
	return unfit, results.Err()
}

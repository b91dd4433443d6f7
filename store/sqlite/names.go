package sqlite

import (
	"context"
	"fmt"

	"jobd/store/internal/rule"
)

// Names implements store.Table. The column takes any name; which ones it takes for the same is up
// to its collation.
func (t *Table) Names(ctx context.Context, names []string) (unfit map[string]string, err error) {
	if _, err := t.layout.Get(ctx); err != nil {
		return nil, err
	}
	unfit, err = t.alike(ctx, t.db, names)
	return unfit, t.Fail("compare the names of targets", err)
}

// alike gives, of names that the column takes for the same, all but the first, each with its fault in
// words.
func (t *Table) alike(ctx context.Context, db rule.Querier, names []string) (unfit map[string]string, err error) {
	unfit = map[string]string{}
	one := func(place int) string {
		list := fmt.Sprintf("SELECT %d AS place, ? AS name", place)
		if place == 0 { // what comes behind the column in one list is compared as the column is
			list = "SELECT 0 AS place, target AS name FROM " + quote(t.config.Table) + " WHERE 0 UNION ALL " + list
		}
		return list
	}
	return unfit, rule.Alike(names, unfit, one, func(query string, args []any, row rule.Row) error {
		return rule.Each(ctx, db, query, args, row)
	})
}

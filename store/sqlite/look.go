package sqlite

import (
	"context"
	"database/sql"

	"jobd/store"
)

// Look implements store.Table.
func (t *Table) Look(ctx context.Context, ids []int64) (map[int64]*store.Seen, error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	found := make(map[int64]*store.Seen, len(ids))
	err := t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		for _, id := range ids {
			row, err := t.find(ctx, tx, id)
			if err != nil {
				return false, err
			}
			if row != nil {
				found[id] = row
			}
		}
		return false, nil
	})
	return found, t.fail("look at jobs", err)
}

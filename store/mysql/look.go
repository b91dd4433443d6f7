package mysql

import (
	"context"

	"jobd/store"
)

// Look implements store.Table.
func (t *Table) Look(ctx context.Context, ids []int64) (map[int64]*store.Seen, error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	var found map[int64]*store.Seen
	err := t.retry(ctx, func() (err error) {
		found, err = t.find(ctx, ids)
		return err
	})
	return found, t.fail("look at jobs", err)
}

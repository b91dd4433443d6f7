package sqlite

import "context"

// Names implements store.Table.
func (t *Table) Names(ctx context.Context, names []string) (unfit map[string]string, err error) {
	return nil, nil
}

// Hold implements store.Table.
func (t *Table) Hold(ctx context.Context, name string) (holder string, err error) { return "", nil }

// Waiting implements store.Table.
func (t *Table) Waiting(ctx context.Context, targets []string, except []int64) ([]string, error) {
	return nil, nil
}

// Probe implements store.Table.
func (t *Table) Probe(ctx context.Context, ids []int64) (refused map[int64]string, err error) {
	return nil, nil
}

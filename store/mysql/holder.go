package mysql

import "context"

// Holder implements store.Table.
func (t *Table) Holder(ctx context.Context, name string) (holder string, err error) {
	found, err := t.examined(ctx)
	if err != nil || !found.version.manyLocks() {
		return "", err
	}
	t.advisory.asking.Lock()
	defer t.advisory.asking.Unlock()
	if err := t.connect(ctx); err != nil {
		return "", t.fail("look at the advisory lock "+name, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout) // cancelling would cost all locks
	defer cancel()
	id, holder, err := t.holderOf(ctx, name)
	if isRefusedLock(err) || err == nil && id == t.advisory.self.id {
		return "", nil
	}
	return holder, t.fail("look at the advisory lock "+name, t.lose(err))
}

package mysql

import (
	"context"
	"fmt"
)

// A connection whose packets vanish is lost here at once, and at the server only after its
// wait_timeout. Until then it has the locks. This process opened it, and has given it up: so it
// ends it there too, which every account may do to its own connections, instead of claiming nothing
// for half a minute.

// takeOver ends a former connection and takes the lock that it had.
func (t *Table) takeOver(ctx context.Context, name string, id int64) (taken bool, err error) {
	if _, err := t.advisory.conn.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id)); err != nil && number(err) == 0 {
		return false, err
	}
	t.config.Logger.Info("a former connection of this worker, which the server had not missed yet, was ended", "connection", id)
	const patience = 2 // seconds
	return t.takeLock(ctx, name, patience)
}

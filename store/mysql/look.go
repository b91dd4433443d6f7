package mysql

import (
	"context"

	"jobd/store"
	"jobd/store/internal/rule"
)

// Look implements store.Table.
func (t *Table) Look(ctx context.Context, ids []int64) (map[int64]*store.Seen, error) {
	columns, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	done, err := t.client(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var found map[int64]*store.Seen
	err = t.retry(ctx, func() (err error) {
		found, err = t.find(ctx, columns, ids)
		return err
	})
	return found, t.fail("look at jobs", err)
}

// find reads rows as Judge needs them; those that do not exist are absent. Any column may be NULL,
// and numbers may be beyond an int64.
func (t *Table) find(ctx context.Context, l *layout, ids []int64) (map[int64]*rule.Found, error) {
	found := make(map[int64]*rule.Found, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := t.db.QueryContext(ctx, "SELECT id, COALESCE(target, 'null'), COALESCE(status, ''), COALESCE("+quote(l.owner.name)+", ''), "+
		l.created.seconds()+", "+l.started.seconds()+", "+l.finished.seconds()+", COALESCE(result, ''), CAST(return_code AS SIGNED), IF("+l.hasEnded()+", COALESCE(sig, ''), '')"+l.planned()+" FROM "+
		l.table+" WHERE id IN ("+rule.List(ids)+")")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var row rule.Found
		_, err := l.scan(rows, &row.Row, &row.Job, &row.Target, &row.Status, &row.Owner, &row.Created, &row.Started, &row.Finished, &row.Result, &row.Code, &row.Signal)
		if err != nil {
			return nil, err
		}
		found[row.Job] = &row
	}
	return found, rows.Err()
}

// hasEnded is the condition that the result columns, sig among them, are those of an end. They are
// in a row that comes back, too.
func (t *times) hasEnded() string {
	if t.uses.Delays() {
		return "status IN ('done','delayed')"
	}
	return "status = 'done'"
}

package mysql

import "jobd/store"

// clock is the server's, in microseconds since 1970. UNIX_TIMESTAMP of a time would go by the server's
// time zone, in which an hour comes twice a year.
const clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// dueWindow is among how many due rows at least, those that are due for longest, a claim looks for
// the highest priority: no index has both orders. It reads and locks them all, and gives back those
// that it does not choose.
const dueWindow = 100

// waitingOrder is the order in which waiting rows are wanted, with a hint to the index that has it.
// Where the rows behind an id are asked for, and many wait, MariaDB passes the entries of all that have
// gone before them, unless the index is named.
func (l *layout) waitingOrder(one ask) (hint, order string) {
	switch {
	case l.Uses.Has(store.ColumnPriority):
		return force(l.ByPriority), "priority DESC, id"
	case one.beyondLast() != "":
		return force(l.ByID), "id"
	}
	return l.ByClaims(), "id"
}

// addDue chooses rows of a target that are due, where the table has such rows.
func (t *Table) addDue(chosen *selection, one ask, but string, found *layout) {
	if !found.Uses.Delays() {
		return
	}
	limit := one.room
	if found.Uses.Has(store.ColumnPriority) {
		limit = max(limit, dueWindow)
	}
	query, _ := found.SelectRow(nil)
	query += force(found.ByDue) + " WHERE " + isDue + but + " ORDER BY run_at LIMIT ? " + found.version.locking()
	chosen.add(query, one.target, limit)
	chosen.asks = append(chosen.asks, one)
}

// force makes the server take an index. With several that begin with the same columns the server
// may take the wrong one, or none.
func force(index string) string {
	if index == "" {
		return ""
	}
	return " FORCE INDEX (" + quote(index) + ")"
}

// isDue is the condition that a row is due. The server's clock decides, for all workers alike. A time
// from the year 2100 on is one in milliseconds, or another mistake, which nobody would ever see come:
// such a row is taken at once, behind all others, so that it can be told.
const isDue = "status = 'delayed' AND target = ? AND (run_at <= UNIX_TIMESTAMP() OR run_at >= 4102444800)"

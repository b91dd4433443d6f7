package mysql

import (
	"context"
	"database/sql"

	"jobd/journal"
	"jobd/store"
)

// Of rows that are due, those that are so for longest are to be put in the order of their priorities,
// and no index has both orders. To lock and to read a whole window for each claim costs a tenth of what
// all of a job costs, and most often all of it has one priority. So a claim reads no more rows than
// it wants, and beside them, without locks, the highest priority of the window. Where a row that was
// not read may go before one that was, the window is read after all, in the same transaction, and
// from then on at once, until all of it has one priority again.

// window is what a claim learns of the priorities of rows that are due.
type window struct {
	whole   bool             // it is read
	highest map[string]int64 // else, by target, the highest priority in it
	uneven  bool             // rows in it do not come in the order in which they are due
}

// dueLimit is how many due rows are read for so many that are wanted.
func (w *window) dueLimit(one ask) int {
	if w.whole && !one.sweep {
		return max(one.room, dueWindow)
	}
	return one.room
}

// lockInOrder begins a transaction, and locks and reads in it rows of targets that wait or are due.
func (t *Table) lockInOrder(ctx context.Context, conn *sql.Conn, found *layout, asks []ask, except []int64) ([]journal.Row, error) {
	windowed := found.uses.Delays() && found.uses.Has(store.ColumnPriority)
	// Where READ COMMITTED is not to be had, reading without locks is perhaps not either.
	whole := windowed && (t.claims.uneven.Load() || t.defaultLevel.Load())
	chosen := t.choose(found, asks, except, windowed, whole)
	rows, err := t.lock(ctx, conn, found, begin, chosen)
	if err != nil || !windowed {
		return rows, err
	}
	t.claims.uneven.Store(chosen.window.uneven)
	if whole || !chosen.window.uneven {
		return rows, nil
	}
	return t.lock(ctx, conn, found, "", t.choose(found, asks, except, true, true))
}

// choose chooses rows of targets that wait or are due.
func (t *Table) choose(found *layout, asks []ask, except []int64, windowed, whole bool) (chosen selection) {
	chosen.window = &window{whole: whole, highest: make(map[string]int64)}
	but := t.but(except)
	for _, one := range asks {
		t.addWaiting(&chosen, one, but, found)
		t.addDue(&chosen, one, but, found)
		if windowed && !whole && !one.sweep && one.room < dueWindow {
			t.addHighest(&chosen, one, but, found)
		}
	}
	return chosen
}

// addHighest chooses the highest priority among the rows of a target that are due for longest.
func (t *Table) addHighest(chosen *selection, one ask, but string, found *layout) {
	chosen.add("SELECT MAX(priority) FROM (SELECT "+found.number(store.ColumnPriority)+" AS priority FROM "+t.name.quoted()+force(found.byDue)+
		" WHERE "+isDue+one.beyond()+but+" ORDER BY run_at LIMIT ?) AS due_for_longest", one.target, dueWindow)
	one.highest = true
	chosen.asks = append(chosen.asks, one)
}

// scanHighest reads the result of addHighest.
func (w *window) scanHighest(results *sql.Rows, target string) error {
	var highest sql.NullInt64
	err := results.Scan(&highest)
	if highest.Valid {
		w.highest[target] = highest.Int64
	}
	return err
}

// judge tells from the rows of one target that were read, in the order in which they are due, whether
// priorities change it.
func (w *window) judge(lines []line) {
	if w == nil || lines[0].ask.sweep {
		return
	}
	var lowest int64
	n := 0
	for _, one := range lines {
		if one.Status != journal.RowDelayed {
			continue
		}
		if n++; n == 1 {
			lowest = one.priority
		}
		w.uneven = w.uneven || w.whole && one.priority > lowest
		lowest = min(lowest, one.priority)
	}
	highest, known := w.highest[lines[0].ask.target]
	w.uneven = w.uneven || known && n >= lines[0].ask.room && highest > lowest
}

package rule

import (
	"jobd/journal"
	"jobd/store"
)

// number is a value of an optional column. One that is not given leaves the column as it is.
type number struct {
	given bool
	value int64
}

// exactly is a value that is given.
func exactly(value int64) number { return number{true, value} }

// times are what an update sets of the optional columns with numbers, where they are jobd's.
type times struct{ runAt, plannedAt, attempts number }

// write is what they set.
func (t times) write(d Dialect) (list []Assignment) {
	for _, one := range []struct {
		column string
		number
	}{{store.ColumnRunAt, t.runAt}, {store.ColumnPlannedAt, t.plannedAt}, {store.ColumnAttempts, t.attempts}} {
		if one.given && d.Uses(one.column) {
			list = append(list, Assignment{one.column, d.Number(one.column, one.value)})
		}
	}
	return list
}

// asBefore is what a row said before its claim; nothing where that is not known.
func asBefore(plan *journal.Plan) times {
	if plan == nil {
		return times{}
	}
	return times{exactly(plan.RunAt), exactly(plan.PlannedAt), exactly(plan.Attempts)}
}

// dueAgain is what a row says that is due at another time.
func dueAgain(again journal.Again) times {
	return times{exactly(again.RunAt), exactly(again.PlannedAt), exactly(again.Attempts)}
}

// counted is how often a run was started; 0: that is not known.
func counted(attempts int64) times {
	return times{attempts: number{attempts > 0, attempts}}
}

// claimed is what a claim sets: the planned start of the run, where the row says another one.
func claimed(row journal.Row, plannedAt int64) times {
	if row.Plan == nil || plannedAt == 0 || plannedAt == row.Plan.PlannedAt {
		return times{}
	}
	return times{plannedAt: exactly(plannedAt)}
}

// setBack is what a retry sets: the next run is a new one, and of one that waits nothing is planned.
func setBack(status string) times {
	return times{number{status == journal.RowWaiting, 0}, exactly(0), exactly(0)}
}

// freeKey lets the application insert the next row with the key of one that has ended for good.
func freeKey(d Dialect) []Assignment {
	if !d.Uses(store.ColumnUniqueKey) {
		return nil
	}
	return []Assignment{{store.ColumnUniqueKey, nil}}
}

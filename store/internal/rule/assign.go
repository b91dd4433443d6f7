package rule

import (
	"slices"
	"strings"

	"jobd/journal"
	"jobd/store"
)

// Assignment is a column that an update sets.
type Assignment struct {
	column string
	value  any
}

// Dialect is how a table holds what jobd writes.
type Dialect interface {
	// Owner is the name of the column that holds the tokens of claims, Sig that of sig; the two may
	// be one column.
	Owner() string
	Sig() string
	// Word is a short text as a column holds it; "" is nothing.
	Word(column, text string) any
	// Code is a return code as its column holds it; nil: the job has none.
	Code(code *int) any
	// Nothing is the value of result, return_code, stdout or stderr for a job that has not run; it
	// may not be possible.
	Nothing(column string) (value any, possible bool)
	// Output is what a job wrote, as its columns hold it.
	Output(done *journal.Done) (stdout, stderr string)
	// Uses tells whether an optional column is jobd's, Number is a number as it holds it.
	Uses(column string) bool
	Number(column string, value int64) any
}

// Write is what a change sets in its row. The worker's name stays in an owner column of its own
// when the run has ended.
func Write(change store.Change, worker string, d Dialect) []Assignment {
	list := []Assignment{{"status", change.Status}}
	switch {
	case change.GivesBack():
		list = append(list, Assignment{d.Owner(), d.Word(d.Owner(), "")}, Assignment{"time_started", int64(0)})
		return append(list, asBefore(change.Plan).write(d)...)
	case change.Status == journal.RowIgnored:
		_, stderr := d.Output(change.Done)
		list = append(list, Assignment{d.Owner(), d.Word(d.Owner(), "")}, Assignment{"time_started", int64(0)}, Assignment{"stderr", stderr})
		return append(list, freeKey(d)...)
	case change.Status == journal.RowRunning:
		return append(append(list, Assignment{"time_started", store.Seconds(change.Start)}), counted(change.Attempts).write(d)...)
	}
	if !change.Start.IsZero() {
		list = append(list, Assignment{"time_started", store.Seconds(change.Start)})
	}
	done := change.Done
	list = append(list,
		Assignment{"time_finished", store.Seconds(change.Finish)},
		Assignment{"result", done.Result},
		Assignment{"return_code", d.Code(done.Code)},
	)
	if !strings.EqualFold(d.Owner(), d.Sig()) {
		list = append(list, Assignment{d.Owner(), d.Word(d.Owner(), worker)})
	}
	stdout, stderr := d.Output(done)
	list = append(list,
		Assignment{d.Sig(), d.Word(d.Sig(), done.Signal)},
		Assignment{"stdout", stdout}, Assignment{"stderr", stderr},
	)
	if change.Status == journal.RowDelayed {
		return append(list, dueAgain(*done.Again).write(d)...)
	}
	return append(append(list, counted(change.Attempts).write(d)...), freeKey(d)...)
}

// Write is what a claim sets in its rows.
func (v verdict) Write(d Dialect) []Assignment {
	list := []Assignment{{"status", v.status}}
	if v.retried {
		return append(list, v.clear(d)...)
	}
	if v.token != "" {
		list = append(list, Assignment{d.Owner(), v.token})
	}
	if v.note != "" {
		_, stderr := d.Output(&journal.Done{Note: v.note})
		list = append(list, Assignment{"stderr", stderr})
	}
	if v.start != 0 {
		list = append(list, Assignment{"time_started", v.start})
	}
	list = append(list, v.times.write(d)...)
	if v.status == journal.RowIgnored {
		list = append(list, freeKey(d)...)
	}
	return list
}

// Set is what stands between SET and WHERE, with its arguments.
func Set(list []Assignment, quote func(string) string) (text string, args []any) {
	columns := make([]string, len(list))
	args = make([]any, len(list))
	for i, one := range list {
		columns[i], args[i] = quote(one.column)+" = ?", one.value
	}
	return strings.Join(columns, ", "), args
}

// Code is a return code as a column holds it that takes NULL or not. Where a job has none, or one
// that does not fit, and the column takes no NULL, it must not read as success.
func Code(code *int, nullable, fits bool) any {
	const failed, smallFailed = int64(255), int64(1)
	switch {
	case code != nil && fits:
		return int64(*code)
	case nullable:
		return nil
	case fits:
		return failed
	case code != nil && *code == 0:
		return int64(0)
	default:
		return smallFailed
	}
}

// Written are the columns that jobd writes, sorted, in a table whose owner column has that name and
// whose optional columns are used so.
func Written(owner string, uses store.Uses) []string {
	names := []string{"status", "time_started", "time_finished", "result", "return_code", store.SigColumn, "stdout", "stderr"}
	if !strings.EqualFold(owner, store.SigColumn) {
		names = append(names, owner)
	}
	for _, name := range []string{store.ColumnRunAt, store.ColumnPlannedAt, store.ColumnAttempts, store.ColumnUniqueKey} {
		if uses.Has(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

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

package mysql

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// batchLimit is how many bytes of updates go into one transaction, where a single one is not
// bigger.
const batchLimit = 4 << 20

// Apply implements store.Table.
func (t *Table) Apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	found, err := t.layout.Get(ctx)
	if err != nil {
		return nil, err
	}
	run := &application{Application: rule.NewApplication(changes), table: t, layout: found, tries: tries}
	run.Try, run.Sort, run.Check = run.try, run.sort, t.Check
	if err = run.all(ctx); err == nil {
		err = run.Judge(ctx, &t.Reader)
	}
	return run.Outcomes, t.Fail("apply changes", err)
}

// application is one call of Apply.
type application struct {
	rule.Application
	table  *Table
	layout *layout
	tries  uint // of a transaction that loses against others
}

// all sends the updates in batches that the server takes.
func (a *application) all(ctx context.Context) error {
	var batch []int
	size := 0
	for _, next := range a.updates(a.All()) {
		more := next.size()
		if len(batch) > 0 && size+more > min(batchLimit, a.layout.budget()) {
			if err := a.Divide(ctx, batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch = append(batch, next.indexes...)
		size += more
	}
	return a.Divide(ctx, batch)
}

// try applies some changes. A lock wait that ended in vain tells that somebody holds rows, not
// which: they are passed by then, and for a while from then on without waiting first.
func (a *application) try(ctx context.Context, some []int) error {
	skips := a.layout.version.skipsLocked()
	skip := skips && time.Now().UnixNano() < a.table.lockedUntil.Load()
	err := a.apply(ctx, some, skip)
	if skips && !skip && isLockWait(err) {
		a.table.lockedUntil.Store(time.Now().Add(lockMemoryLasts).UnixNano())
		err = a.apply(ctx, some, true)
	}
	return err
}

// sort tells what an error of try says.
func (a *application) sort(err error) (fault rule.Fault, certain bool) {
	a.tries = 2 // so that it soon finds the rows that keep losing
	if fault, certain = sortError(err); fault == rule.Values {
		a.table.layout.Store(nil) // the columns are not what they were taken for
	}
	return fault, certain
}

// apply applies some changes in one transaction. Cancelling it does no harm, since it can be done again.
// To skip rows that somebody else has locked, it takes one round trip more: the first asks which rows can
// be locked, and locks them, the second updates those. If an update has met only some of its rows, each
// row is updated by itself, which tells the rows that are met, and changes nothing in the others.
func (a *application) apply(ctx context.Context, some []int, skip bool) error {
	var batch []update
	var locked []int
	var matched []int64
	err := a.table.retryUpTo(ctx, a.tries, func() error {
		return a.table.once(ctx, func(conn *sql.Conn) (committed bool, err error) {
			free, beginning := some, []rule.Statement{{Query: begin}}
			if skip {
				if free, locked, err = a.lockFree(ctx, conn, some); err != nil {
					return false, err
				}
				beginning = nil
			}
			batch = a.updates(free)
			matched, err = a.layout.transact(ctx, conn, beginning, batch)
			return err == nil, err
		})
	})
	if err != nil {
		return err
	}
	for _, index := range locked {
		a.Hide(index)
	}
	for i, one := range batch {
		if isClear := matched[i] == 0 || matched[i] == int64(len(one.jobs)); isClear {
			for _, index := range one.indexes {
				a.Met(index, matched[i] > 0)
			}
			continue
		}
		for _, index := range one.indexes {
			if err := a.apply(ctx, []int{index}, skip); err != nil {
				return err
			}
		}
	}
	return nil
}

// transact sends updates and commits, after what the transaction begins with, where it has not begun
// yet, and tells how many rows each of them matched.
func (l *layout) transact(ctx context.Context, conn *sql.Conn, statements []rule.Statement, batch []update) (
	matched []int64, err error,
) {
	if len(batch) == 1 && len(statements) > 0 { // a transaction by itself
		return l.send(ctx, conn, batch[0].statement())
	}
	for _, one := range batch {
		statements = append(statements, one.statement())
	}
	matched, err = l.send(ctx, conn, append(statements, commit)...)
	if err != nil {
		return nil, err
	}
	last := len(matched) - 1 // that of COMMIT
	return matched[last-len(batch) : last], nil
}

// lockFree opens a transaction and locks those rows of the changes that nobody else holds.
func (a *application) lockFree(ctx context.Context, conn *sql.Conn, some []int) (free, locked []int, err error) {
	ids := make([]int64, len(some))
	for i, index := range some {
		ids[i] = a.Changes[index].Job
	}
	query := begin + "; SELECT id FROM " + a.layout.Table + " WHERE id IN (" + rule.List(ids) + ") FOR UPDATE SKIP LOCKED"
	found, err := idsOf(ctx, conn, query)
	for i, index := range some {
		if slices.Contains(found, ids[i]) {
			free = append(free, index)
		} else {
			locked = append(locked, index)
		}
	}
	return free, locked, err
}

// lockMemoryLasts is for how long nobody waits for locks first, when a row was found locked: one that
// stays locked would cost every batch the wait. It is longer than the mirror lets pass before it tries a
// held row again.
const lockMemoryLasts = time.Minute

// update is the statement that applies one change, or several that make the same of their rows, as
// those of many jobs that had nothing to say do.
type update struct {
	indexes    []int // of the changes among those of their Apply
	jobs       []int64
	set, guard string // before the ids of the jobs, and behind them
	args       []any
}

// statementOverhead is more than an update takes in a packet beside its texts and ids, idOverhead
// than an id.
const (
	statementOverhead = 1 << 10
	idOverhead        = 24
)

// size is how many bytes the update takes in a packet.
func (u update) size() int {
	size := statementOverhead + idOverhead*len(u.jobs)
	for _, arg := range u.args {
		if text, ok := arg.(string); ok {
			size += escapedLength(text)
		}
	}
	return size
}

// budget is how many bytes of updates a packet can hold. The least that a server
// can be set to is too little for any update; it gets one without text.
func (l *layout) budget() int { return max(l.packet-2*statementOverhead, statementOverhead+2) }

// updates makes the statements for some of the changes. One that says the same as one of the few before
// it joins that one.
func (a *application) updates(some []int) (updates []update) {
	const compared = 8
	for _, index := range some {
		change := a.Changes[index]
		set, guard, args, more := a.layout.Update(change, a.Reduced[index])
		args = append(args, more...)
		from := max(0, len(updates)-compared)
		like := slices.IndexFunc(updates[from:], func(u update) bool {
			return u.set == set && u.guard == guard && slices.Equal(u.args, args)
		})
		if like < 0 {
			updates = append(updates, update{[]int{index}, []int64{change.Job}, set, guard, args})
			continue
		}
		one := &updates[from+like]
		one.indexes, one.jobs = append(one.indexes, index), append(one.jobs, change.Job)
	}
	return updates
}

// statement is the update as it is sent.
func (u update) statement() rule.Statement {
	return rule.Statement{Query: u.set + rule.List(u.jobs) + u.guard, Args: u.args}
}

// output is a job's outputs, cut so that both together fit into a packet
// (pitfall 9): each may have half of it, and what the other leaves.
func (l *layout) output(done *journal.Done, reduced bool) (stdout, stderr string) {
	budget := l.budget() - statementOverhead
	render := func(name string, output journal.Output, most int) (text string, size int) {
		for limit := most; ; limit = limit / 4 * 3 {
			text = l.columns[name].text(output, max(limit, 1), reduced)
			if size = escapedLength(text); size <= most || limit <= 1 {
				return text, size
			}
		}
	}
	stdout, outSize := render("stdout", done.Stdout, budget)
	stderr, errSize := render("stderr", done.ShownStderr(), budget)
	if outSize+errSize > budget {
		stdout, _ = render("stdout", done.Stdout, max(budget/2, budget-errSize))
		stderr, _ = render("stderr", done.ShownStderr(), max(budget/2, budget-outSize))
	}
	return stdout, stderr
}

// growing are the bytes that take two in a quoted string.
const growing = "\x00\n\r\x1a'\"\\"

// escapedLength is how many bytes a text takes in a statement.
func escapedLength(text string) int {
	length := len(text)
	for i := range len(growing) {
		length += strings.Count(text, growing[i:i+1])
	}
	return length
}

package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Claim implements store.Table.
func (t *Table) Claim(ctx context.Context, room map[string]int, except []int64, decide store.Decide) error {
	var asks []ask
	for _, target := range slices.Sorted(maps.Keys(room)) {
		if room[target] > 0 {
			asks = append(asks, ask{Ask: rule.Ask{Target: target, Room: room[target]}})
		}
	}
	if len(asks) == 0 {
		return nil
	}
	var rows []journal.Row
	run := &claim{table: t, decide: decide}
	err := run.run(ctx, func(ctx context.Context, conn *sql.Conn) (_ []journal.Row, err error) {
		rows, err = t.lockCandidates(ctx, conn, run.layout, asks, except)
		return rows, err
	}, false)
	if err != nil || !run.all {
		rows = nil
	}
	t.candidates.end(asks, rows)
	return t.FailClaim("claim waiting jobs", err)
}

// claim is one claim.
type claim struct {
	table  *Table
	layout *layout
	decide store.Decide
	all    bool // it decided on each row that it was given

	uncommitted bool               // its update failed before COMMIT was sent
	refused     *store.RefusedRows // its update failed, and was not committed
}

// run begins a transaction, in which choose locks rows, has them decided and updates them. Before decide, a
// transaction that lost a race is begun again. After decide nothing is, and the context no longer cancels (pitfall 7).
// Where there is no row, decide is called only if it wants to hear of it.
func (c *claim) run(ctx context.Context, choose func(context.Context, *sql.Conn) ([]journal.Row, error), empty bool) error {
	err := c.table.retry(ctx, func() (err error) {
		if c.layout, err = c.table.layout.Get(ctx); err != nil {
			return err
		}
		if c.layout.Unindexed != "" && !empty {
			return rule.Misfit{Text: c.layout.Unindexed}
		}
		return c.table.once(ctx, func(conn *sql.Conn) (bool, error) {
			if err := c.table.AllowClaim(ctx, serverOf(conn)); err != nil { // asking takes no round trip
				return false, err
			}
			rows, err := choose(ctx, conn)
			if err != nil || len(rows) == 0 && !empty {
				return false, err
			}
			events, err := c.decide(rows)
			if err == nil {
				err = c.commit(context.WithoutCancel(ctx), conn, rows, events)
			}
			return err == nil, backoff.Permanent(err)
		})
	})
	if c.refused == nil {
		return err
	}
	if isDubious(err) {
		c.refused.Err = c.table.Fail("update jobs", err)
		if store.IsAway(c.refused.Err) { // the table is away: no row is at fault
			c.refused.Rows = nil
		}
	}
	return c.refused
}

// commit updates the rows as decided and commits. If an update misses rows that the transaction has
// locked, the server has undone the transaction and goes on without it, as a node of a Galera cluster
// does (pitfall 15). The rest must not be committed then.
func (c *claim) commit(ctx context.Context, conn *sql.Conn, rows []journal.Row, events []journal.Event) error {
	verdicts, err := rule.Verdicts(rows, events)
	if err != nil {
		return err
	}
	decided := 0
	for _, verdict := range verdicts {
		decided += len(verdict.Jobs)
	}
	c.all = decided == len(rows)
	if err = c.update(ctx, conn, verdicts); err != nil {
		c.explain(ctx, conn, verdicts, err)
	}
	return err
}

// explain finds out why the update failed: refused by the table, lost to another transaction, or not known, because
// the link or the COMMIT failed; then the claim is in doubt. A transaction
// that is open after its update has failed has not been committed, whatever the error's number. Then some
// rows are at fault: each is tried by itself, and the transaction undone.
func (c *claim) explain(ctx context.Context, conn *sql.Conn, verdicts []rule.Verdict, err error) {
	refused := &store.RefusedRows{Err: err}
	if number(err) != 0 && inTransaction(ctx, conn) {
		refused.Rows, _ = rule.ProbeEach(verdicts, func(single rule.Verdict) (why string, err error) {
			if _, err = sendPacket(ctx, conn, []rule.Statement{c.layout.Decision(single)}); number(err) != 0 {
				why, err = err.Error(), nil
			}
			if !inTransaction(ctx, conn) { // the next one would be committed
				err = errors.Join(err, errNoTransaction)
			}
			return why, err
		})
	} else if !c.uncommitted {
		return
	}
	var lost *store.Overtaken
	if !errors.As(err, &lost) || len(refused.Rows) > 0 {
		c.refused = refused
	}
}

// errNoTransaction ends the trial of a claim's rows.
var errNoTransaction = errors.New("the server has ended the transaction")

// inTransaction tells whether a transaction is open on the connection. The server refuses this
// statement only then.
func inTransaction(ctx context.Context, conn *sql.Conn) bool {
	_, err := conn.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
	return number(err) == errInTransaction
}

// update sends the updates and COMMIT, together where the server's locks can be relied on.
func (c *claim) update(ctx context.Context, conn *sql.Conn, verdicts []rule.Verdict) error {
	updates := make([]rule.Statement, 0, len(verdicts)+1)
	for _, verdict := range verdicts {
		updates = append(updates, c.layout.Decision(verdict))
	}
	galera := c.layout.galera
	if !galera {
		updates = append(updates, commit)
	}
	matched, err := c.layout.send(ctx, conn, updates...)
	if err != nil {
		c.uncommitted = galera && number(err) != 0
		return overtaken(err)
	}
	if err = complete(verdicts, matched); !galera {
		return err
	}
	if err != nil {
		return &store.Overtaken{Err: err}
	}
	_, err = c.layout.send(ctx, conn, commit)
	return overtaken(err)
}

// complete tells whether the updates of a claim met all of its rows.
func complete(verdicts []rule.Verdict, matched []int64) error {
	for i, verdict := range verdicts {
		if matched[i] != int64(len(verdict.Jobs)) {
			return fmt.Errorf("the transaction lost its locks: %d of %d rows were updated", matched[i], len(verdict.Jobs))
		}
	}
	return nil
}

// ClaimManual implements store.Table.
func (t *Table) ClaimManual(ctx context.Context, ids []int64, targets []string, decide store.Decide) (locked []int64, err error) {
	const op = "claim jobs by id"
	done, err := t.client(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	names, err := t.comparable(ctx, targets)
	if err != nil {
		return nil, t.Fail(op, err)
	}
	run := &claim{table: t, decide: decide}
	err = run.run(ctx, func(ctx context.Context, conn *sql.Conn) (rows []journal.Row, err error) {
		rows, locked, err = t.lockNamed(ctx, conn, run.layout, ids, names)
		return rows, err
	}, true)
	return locked, t.FailClaim(op, err)
}

// Rows implements store.Table.
func (t *Table) Rows(ctx context.Context, ids []int64) (rows []journal.Row, locked []int64, err error) {
	found, err := t.layout.Get(ctx)
	if err != nil {
		return nil, nil, err
	}
	err = t.retry(ctx, func() error {
		return t.once(ctx, func(conn *sql.Conn) (_ bool, err error) {
			rows, locked, err = t.lockNamed(ctx, conn, found, ids, nil)
			return false, err // the rollback gives the locks back
		})
	})
	return rows, locked, t.Fail("read jobs", err)
}

// lockNamed begins a transaction and locks rows by their ids. If somebody else holds a row, lockNamed
// does not lock it, but lists it in locked. It waits for such a row only if the server can't skip locked
// rows.
func (t *Table) lockNamed(ctx context.Context, conn *sql.Conn, found *layout, ids []int64, names []string) (
	rows []journal.Row, locked []int64, err error,
) {
	ids = rule.IDs(ids)
	if len(ids) == 0 {
		return nil, nil, nil
	}
	lines, err := t.lock(ctx, conn, found, begin+"; ", found.Named(ids, names), names)
	rows = rule.Rows(slices.Concat(lines...))
	if err != nil || len(rows) == len(ids) || !found.version.skipsLocked() {
		return rows, nil, err
	}
	free := make(map[int64]bool, len(rows))
	for _, row := range rows {
		free[row.Job] = true
	}
	missing := slices.DeleteFunc(ids, func(id int64) bool { return free[id] })
	for some := range slices.Chunk(missing, rule.IDsLimit) {
		there, err := idsOf(ctx, conn, "SELECT id FROM "+found.Table+" WHERE id IN ("+rule.List(some)+")")
		if err != nil {
			return nil, nil, err
		}
		locked = append(locked, there...)
	}
	slices.Sort(locked)
	return rows, locked, nil
}

// lock sends statements that lock and read rows, in one round trip, and gives the rows of each. start
// begins the transaction, where it has not begun yet.
func (t *Table) lock(ctx context.Context, conn *sql.Conn, found *layout, start string, statements []rule.Statement, names []string) (
	lines [][]rule.Line, err error,
) {
	var args []any
	for _, one := range statements {
		start += one.Query + "; "
		args = append(args, one.Args...)
	}
	results, err := conn.QueryContext(ctx, start, args...)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	for _, one := range statements {
		some, err := found.Lines(results, one, names)
		if err != nil {
			return nil, err
		}
		lines = append(lines, some)
		results.NextResultSet()
	}
	return lines, results.Err()
}

// lockAsked locks and reads rows of targets that wait or are due: of each as many as are wanted. met is
// how many rows of each target wait.
func (t *Table) lockAsked(ctx context.Context, conn *sql.Conn, found *layout, start string, asks []ask, except []int64) (
	rows []journal.Row, met map[string]int, err error,
) {
	var statements []rule.Statement
	for _, one := range asks {
		statements = append(statements, found.Choose(one.Ask, except)...)
	}
	lines, err := t.lock(ctx, conn, found, start, statements, nil)
	if err != nil {
		return nil, nil, err
	}
	met = make(map[string]int, len(asks))
	each := len(lines) / len(asks)
	for i, one := range asks {
		some := slices.Concat(lines[i*each : (i+1)*each]...)
		for _, line := range some {
			if line.Status == journal.RowWaiting {
				met[one.Target]++
			}
		}
		if found.Uses.Ordered() {
			some = rule.InOrder(some, one.Room)
		}
		rows = append(rows, rule.Rows(some)...)
	}
	return rows, met, nil
}

// idsOf reads the ids of a query.
func idsOf(ctx context.Context, conn *sql.Conn, query string, args ...any) (ids []int64, err error) {
	err = rule.Each(ctx, conn, query, args, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// A locking read from the front passes the index entries of all rows that have left the status
// `waiting` until InnoDB's purge comes by, and those that other workers hold: at 3,000 jobs/s a claim's
// read rose from 0.5 ms to 12 ms between two purges, and 64 workers on one target got a third of what
// they get on 64. So a claim that follows a full one locks rows by their ids, out of a list of
// candidates that it has read without locks, for some claims at once. Where others have been faster,
// it takes them from a place of its own, further behind.
//
// A list is a hint. A candidate that another worker has, or had, is passed by. A claim that finds
// fewer rows than it has room for looks from the front in the same transaction, before anything is
// decided, and no list is older than listAge: a row that began to wait before others of the list is
// not passed by for long.

const (
	// listAge is how old a list may become.
	listAge = 500 * time.Millisecond
	// listClaims is for how many claims a list is read.
	listClaims = 16
	// mostAside is behind how many of the first rows that wait a claim takes its place, at most.
	mostAside = 2000
)

// ask is how many rows of a target are wanted, and the candidates for them, with which IDs begin.
type ask struct {
	rule.Ask
	at     time.Time // of the claim before
	list   []int64
	read   time.Time // when list was
	missed []int64   // candidates that somebody else has locked, or had
	aside  int       // behind how many of the first rows that wait the next list begins, at most
	front  time.Time // until then the front is looked at: somebody holds the first rows
}

// candidates are the lists of targets whose last claim was a full one. They are in memory only: if they
// are lost, a read is slower, and no row is missed.
type candidates struct {
	mu  sync.Mutex
	of  map[string]ask
	now func() time.Time // nil: time.Now
}

func (c *candidates) clock() time.Time {
	if c.now != nil {
		return c.now()
	}
	return time.Now()
}

// take gives an ask what is known of its target, if the last claim was a full one, and not long ago: who claims
// rarely looks from the front, and so does everybody for a while where somebody holds the first rows. Candidates
// that are too old or too few are left out.
func (c *candidates) take(one *ask) (known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	one.IDs = nil // of a try that failed
	last, full := c.of[one.Target]
	if !full || now.Sub(last.at) >= listAge {
		return false
	}
	last.Ask = one.Ask
	if *one = last; len(one.list) < one.Room || now.Sub(one.read) >= listAge {
		one.list = nil
	}
	return !now.Before(one.front)
}

// end keeps the candidates for the next claims of each target of which the claim took as many rows as it had
// room for, without those that it has looked at. For other targets it forgets them.
func (c *candidates) end(asks []ask, rows []journal.Row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := map[string]int{}
	for _, row := range rows {
		taken[row.Target]++
	}
	for _, one := range asks {
		delete(c.of, one.Target)
		if taken[one.Target] < one.Room {
			continue
		}
		switch looked := one.look(rows); {
		case looked > 2*one.Room:
			one.elsewhere()
		case looked > 0:
			one.list, one.missed = one.list[looked:], nil
			if looked == one.Room {
				one.aside = one.aside * 15 / 16
			}
		}
		if c.of == nil {
			c.of = make(map[string]ask)
		}
		one.IDs, one.at = nil, c.clock()
		c.of[one.Target] = one
	}
}

// look tells how many of its candidates a claim has looked at that got some rows, and notes which of them it did not
// get.
func (one *ask) look(rows []journal.Row) (looked int) {
	if len(one.IDs) == 0 {
		return 0
	}
	got := make(map[int64]bool, len(rows))
	for _, row := range rows {
		got[row.Job] = true
	}
	missed, n := []int64(nil), 0
	for at, id := range one.IDs {
		switch {
		case got[id]:
			looked, n = at+1, n+1
		case n < one.Room:
			missed = append(missed, id)
		}
	}
	if one.missed = missed; n < one.Room {
		looked = len(one.IDs)
	}
	return looked
}

// elsewhere has the next claim read other candidates: still further behind, if it was not alone before.
func (one *ask) elsewhere() {
	if one.IDs, one.list = nil, nil; one.aside > 0 {
		one.missed, one.aside = nil, min(2*one.aside, mostAside)
	}
}

// placeOf is behind how many of the first rows a list of so many begins. The very first row is in as many lists as
// any other, at least: none is passed by for ever.
func placeOf(aside, limit int) int { return max(0, rand.IntN(aside+limit)-limit+1) }

// lockCandidates begins a transaction, in which it locks and reads rows of targets that wait or are due. It
// looks for waiting ones among the candidates of their targets, where it has some; if there are too few, it
// reads once more from the front.
func (t *Table) lockCandidates(ctx context.Context, conn *sql.Conn, found *layout, asks []ask, except []int64) ([]journal.Row, error) {
	if err := t.list(ctx, conn, found, asks, except); err != nil {
		return nil, err
	}
	rows, met, err := t.lockAsked(ctx, conn, found, begin+"; ", asks, except)
	short := false
	for i := range asks {
		if one := &asks[i]; len(one.IDs) > 0 && met[one.Target] < one.Room {
			one.look(rows)
			one.elsewhere()
			short = true
		}
	}
	if err == nil && short {
		rows, _, err = t.lockAsked(ctx, conn, found, "", asks, except)
	}
	return rows, err
}

// list gives each ask its candidates, and reads those that are missing, without locks: without those that
// somebody is about to claim, if the server shows what is not committed.
func (t *Table) list(ctx context.Context, conn *sql.Conn, found *layout, asks []ask, except []int64) error {
	if !found.Lists() {
		return nil
	}
	for i := range asks {
		one := &asks[i]
		if !t.candidates.take(one) {
			continue
		}
		if one.list == nil {
			if err := t.readList(ctx, conn, found, one, except); err != nil {
				return err
			}
		}
		switch few := 2 * one.Room; {
		case len(one.list) < one.Room: // the end is near, or somebody holds the first rows: the front will do
			one.aside /= 2
		case one.aside > 0 || len(one.list) < few:
			one.IDs = one.list
		default: // nobody else seems to claim
			one.IDs = one.list[:few]
		}
	}
	return nil
}

// readList reads candidates. If most of those that the first ones of a worker alone has missed are gone, others were
// faster, and it reads them further behind. If most of them wait still, somebody holds them who does not claim: it
// reads none.
func (t *Table) readList(ctx context.Context, conn *sql.Conn, found *layout, one *ask, except []int64) error {
	one.read = t.candidates.clock()
	if len(one.missed) > 0 {
		still := found.Candidates(one.Target, one.missed, nil, len(one.missed), 0)
		wait, err := idsOf(ctx, conn, still.Query, still.Args...)
		if err != nil {
			return err
		}
		if 2*len(wait) > len(one.missed) {
			one.front = one.read.Add(listAge)
			return nil
		}
		one.missed, one.aside = nil, one.Room
	}
	limit := min(listClaims*one.Room, rule.IDsLimit)
	query := found.Candidates(one.Target, nil, except, limit, placeOf(one.aside, limit))
	ids, err := idsOf(ctx, conn, query.Query, query.Args...)
	one.list = ids
	return err
}

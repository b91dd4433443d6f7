package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"maps"
	"slices"

	"github.com/cenkalti/backoff/v5"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Claim implements store.Table.
func (t *Table) Claim(ctx context.Context, room map[string]int, except []int64, decide store.Decide) error {
	found, err := t.examined(ctx)
	if err != nil {
		return err
	}
	chosen := t.waiting(room, except, found)
	if len(chosen.targets) == 0 {
		return nil
	}
	return t.fail("claim waiting jobs", t.claim(ctx, chosen, found, decide))
}

// ClaimManual implements store.Table.
func (t *Table) ClaimManual(ctx context.Context, ids []int64, targets []string, decide store.Decide) (locked []int64, err error) {
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	done, err := t.client(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return nil, t.fail("claim jobs by id", t.claim(ctx, t.named(ids), found, decide))
}

// selection is the statements that lock the rows of a claim, one result for each.
type selection struct {
	query   string
	args    []any
	targets []string // the target of each result; none where rows are chosen by id
}

// waiting chooses rows of targets that have room. A statement for each, equality on status
// and target and the order of ids, is what the index serves: with target IN (…) every
// candidate is sorted and locked (pitfall 2).
func (t *Table) waiting(room map[string]int, except []int64, found *layout) selection {
	var chosen selection
	but := ""
	if len(except) > 0 {
		but = " AND id NOT IN (" + rule.List(except) + ")"
	}
	for _, target := range slices.Sorted(maps.Keys(room)) {
		if room[target] <= 0 {
			continue
		}
		chosen.query += t.selectRow() + " WHERE status = 'waiting' AND target = ?" + but + " ORDER BY id LIMIT ? " + found.version.locking() + "; "
		chosen.args = append(chosen.args, target, room[target])
		chosen.targets = append(chosen.targets, target)
	}
	return chosen
}

// named chooses rows by id. It waits for rows that others hold: the client is to hear what they are.
func (t *Table) named(ids []int64) selection {
	if len(ids) == 0 {
		return selection{}
	}
	return selection{query: t.selectRow() + " WHERE id IN (" + rule.List(ids) + ") ORDER BY id FOR UPDATE"}
}

// selectRow begins a statement that reads rows as journal.Row has them.
func (t *Table) selectRow() string {
	return "SELECT id, target, status, COALESCE(" + quote(t.config.ClaimColumn) + ", '') FROM " + t.name.quoted()
}

// claim locks the chosen rows, has them decided and updates them. Until decide is called, a
// lost race is begun again; afterwards nothing is, and nothing is cancelled (pitfall 7).
func (t *Table) claim(ctx context.Context, chosen selection, found *layout, decide store.Decide) error {
	return t.retry(ctx, func() error {
		return t.claiming(ctx, func(conn *sql.Conn) (bool, error) {
			rows, err := t.lock(ctx, conn, chosen)
			if err != nil || len(rows) == 0 && len(chosen.targets) > 0 {
				return false, err
			}
			events, err := decide(rows)
			if err == nil {
				err = t.settle(context.WithoutCancel(ctx), conn, found, rows, events)
			}
			return err == nil, backoff.Permanent(err)
		})
	})
}

// lock begins the transaction and locks and reads the chosen rows, in one round trip.
func (t *Table) lock(ctx context.Context, conn *sql.Conn, chosen selection) ([]journal.Row, error) {
	results, err := conn.QueryContext(ctx, begin+chosen.query, chosen.args...)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	var rows []journal.Row
	for n := 0; ; n++ {
		for results.Next() {
			row, err := scanRow(results)
			if err != nil {
				return nil, err
			}
			if n < len(chosen.targets) {
				row.Target = chosen.targets[n] // the collation may have matched another spelling
			}
			rows = append(rows, row)
		}
		if !results.NextResultSet() {
			return distinct(rows), results.Err()
		}
	}
}

// scanRow reads one row of selectRow.
func scanRow(results *sql.Rows) (journal.Row, error) {
	var row journal.Row
	err := results.Scan(&row.Job, &row.Target, &row.Status, &row.Owner)
	return row, err
}

// distinct drops rows that a second target matched too: one that the collation takes for the first.
func distinct(rows []journal.Row) []journal.Row {
	seen := make(map[int64]bool, len(rows))
	return slices.DeleteFunc(rows, func(row journal.Row) bool {
		again := seen[row.Job]
		seen[row.Job] = true
		return again
	})
}

// settle updates the rows as decided and commits. An update that misses rows which the transaction has locked
// tells that the server undid the transaction and went on without: a node of a Galera cluster does
// (pitfall 15), and what it has not committed yet, it must not.
func (t *Table) settle(ctx context.Context, conn *sql.Conn, found *layout, rows []journal.Row, events []journal.Event) error {
	verdicts, err := rule.Verdicts(rows, events)
	if err != nil {
		return err
	}
	updates := t.decided(verdicts)
	if !found.galera {
		matched, err := found.send(ctx, conn, append(updates, commit)...)
		if err != nil {
			return overtaken(err)
		}
		return complete(verdicts, matched)
	}
	matched, err := found.send(ctx, conn, updates...)
	if err == nil {
		if err := complete(verdicts, matched); err != nil {
			return &store.Overtaken{Err: err}
		}
		_, err = found.send(ctx, conn, commit)
	}
	return overtaken(err)
}

// decided is the updates that a claim consists of.
func (t *Table) decided(verdicts []rule.Verdict) []statement {
	updates := make([]statement, 0, len(verdicts)+1)
	for _, verdict := range verdicts {
		one := statement{args: []sqldriver.Value{verdict.Status}}
		assignments := "status = ?"
		if verdict.Token != "" {
			assignments += ", " + quote(t.config.ClaimColumn) + " = ?"
			one.args = append(one.args, verdict.Token)
		}
		if verdict.Start != 0 {
			assignments += ", time_started = ?"
			one.args = append(one.args, verdict.Start)
		}
		one.query = fmt.Sprintf("UPDATE %s SET %s WHERE id IN (%s) AND status IN ('waiting','manual'); ",
			t.name.quoted(), assignments, rule.List(verdict.Jobs))
		updates = append(updates, one)
	}
	return updates
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

// Rows implements store.Table.
func (t *Table) Rows(ctx context.Context, ids []int64) (rows []journal.Row, locked []int64, err error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, nil, err
	}
	err = t.retry(ctx, func() error {
		return t.once(ctx, func(conn *sql.Conn) (_ bool, err error) {
			rows, err = t.lock(ctx, conn, t.named(ids))
			return false, err // the rollback gives the locks back
		})
	})
	return rows, nil, t.fail("read jobs", err)
}

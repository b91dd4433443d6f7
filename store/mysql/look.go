package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/store/internal/rule"
)

// reader answers clients' questions.
func (t *Table) reader() rule.Reader {
	return rule.Reader{
		Uses: t.config.Uses, Client: t.client,
		Names: func(ctx context.Context, op string, names []string) ([]string, error) {
			names, err := t.comparable(ctx, names)
			return names, t.fail(op, err)
		},
		Ask: func(ctx context.Context, op string, within time.Duration, query rule.Query, row rule.Row) error {
			err := t.retry(ctx, func() error {
				found, err := t.examined(ctx)
				if err != nil {
					return err
				}
				text, args := query(&found.Shape)
				if within > 0 {
					text = found.within(within, strings.TrimPrefix(text, "SELECT"))
				}
				return t.each(ctx, text, args, func(results *sql.Rows) error { return row(results.Scan) })
			})
			if n := number(err); n == errStatementTime || n == errExecutionTime {
				return fmt.Errorf("%s: %w", op, rule.ErrTooSlow)
			}
			return t.fail(op, err)
		},
	}
}

// shape is how the table says things. A character may have up to four bytes, so that the end of a text
// has a byte at least for each that is asked for.
func (t *Table) shape(found *inspection) rule.Shape {
	s := rule.Shape{
		Columns: map[string]rule.Column{}, Uses: t.config.Uses, Table: t.name.quoted(),
		Owner: t.config.ClaimColumn, Worker: t.config.Worker, Now: "UNIX_TIMESTAMP()", Clock: clock,
		Code: "CAST(return_code AS SIGNED)", By: force, Quote: quote, Output: found.output,
		Text:    func(column, none string) string { return "COALESCE(" + column + ", '" + none + "')" },
		Seconds: func(column string) string { return found.columns[column].seconds() },
		Number: func(name string) string {
			c := found.columns[name]
			if c.kind == "bigint" && strings.Contains(c.Declared, "unsigned") {
				return "CAST(LEAST(COALESCE(" + quote(c.Name) + ", 0), 9223372036854775807) AS SIGNED)"
			}
			return c.seconds()
		},
		Long: func(name string) string { return "COALESCE(LEFT(" + quote(name) + ", 1000), '')" },
		Tail: func(column string, bytes int) (size, end string) {
			return "COALESCE(OCTET_LENGTH(" + column + "), 0)", "COALESCE(RIGHT(" + column + ", " + strconv.Itoa(bytes) + "), '')"
		},
	}
	id := found.columns["id"]
	if id.kind == "bigint" && id.Least == 0 || !strings.Contains(id.kind, "int") {
		s.AnID = " AND id <= 9223372036854775807"
	}
	return s
}

// find reads rows as Judge needs them; those that do not exist are absent.
func (t *Table) find(ctx context.Context, l *layout, ids []int64) (map[int64]*rule.Found, error) {
	found := make(map[int64]*rule.Found, len(ids))
	err := t.each(ctx, l.SelectSeen("")+" WHERE id IN ("+rule.List(ids)+")", nil, func(results *sql.Rows) error {
		row := &rule.Found{}
		err := l.ScanSeen(results.Scan, row)
		found[row.Job] = row
		return err
	})
	return found, err
}

// Waiting implements store.Table. It asks twice in one round trip. What is committed shows rows
// that somebody's open transaction has changed and may leave as they were; what is not committed
// yet shows rows that somebody is about to insert, or to set back. Rows that are due wait, too.
func (t *Table) Waiting(ctx context.Context, targets []string, except []int64) ([]string, error) {
	const op = "look for waiting jobs"
	names, err := t.comparable(ctx, targets)
	if err != nil {
		return nil, t.fail(op, err)
	}
	waiting := map[string]bool{}
	for some := range slices.Chunk(names, waitingLimit) {
		err := t.retry(ctx, func() error {
			found, err := t.examined(ctx)
			if err != nil {
				return err
			}
			return t.lookWaiting(ctx, found, some, except, waiting)
		})
		if err != nil {
			return nil, t.fail(op, err)
		}
	}
	return slices.Sorted(maps.Keys(waiting)), nil
}

// readUncommitted lets the next transaction, or the next statement where none is open, see what
// others have not committed. It holds for no other.
const readUncommitted = "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; "

// lookWaiting notes for which of the targets there are rows that wait or are due.
func (t *Table) lookWaiting(ctx context.Context, found *layout, targets []string, except []int64, waiting map[string]bool) error {
	var look selection
	but := found.but(except)
	for i, target := range targets {
		if i > 0 {
			look.query += " UNION ALL "
		}
		begin := "(SELECT " + strconv.Itoa(i) + " AS place FROM " + t.name.quoted()
		look.query += begin + found.ByClaims() + " WHERE status = 'waiting' AND target = ?" + but + " LIMIT 1)"
		look.args = append(look.args, target)
		if found.Uses.Delays() {
			look.query += " UNION ALL " + begin + force(found.ByDue) + " WHERE " + isDue + but + " LIMIT 1)"
			look.args = append(look.args, target)
		}
	}
	query, args := readUncommitted+look.query+"; "+look.query, slices.Concat(look.args, look.args)
	return t.each(ctx, query, args, func(results *sql.Rows) error {
		var place int
		err := results.Scan(&place)
		if err == nil {
			waiting[targets[place]] = true
		}
		return err
	})
}

// within is a SELECT that the server gives up after a time. The client may be gone before: that only
// closes the connection, and without an index the server would read on through the whole table.
func (l *layout) within(limit time.Duration, selects string) string {
	query := "SELECT /*+ MAX_EXECUTION_TIME(" + strconv.FormatInt(limit.Milliseconds(), 10) + ") */" + selects
	if l.version.mariaDB && l.version.since(nil, []int{10, 1, 2}) { // which takes the hint for a comment
		query = "SET STATEMENT max_statement_time = " + strconv.Itoa(int(limit.Seconds())) + " FOR " + query
	}
	return query
}

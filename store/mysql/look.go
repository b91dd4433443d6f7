package mysql

import (
	"context"
	"fmt"
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
			return names, t.Fail(op, err)
		},
		Ask: func(ctx context.Context, op string, within time.Duration, query rule.Query, row rule.Row) error {
			err := t.retry(ctx, func() error {
				found, err := t.layout.Get(ctx)
				if err != nil {
					return err
				}
				text, args := query(&found.Shape)
				if within > 0 {
					text = found.within(within, strings.TrimPrefix(text, "SELECT"))
				}
				return rule.Each(ctx, t.db, text, args, row)
			})
			if n := number(err); n == errStatementTime || n == errExecutionTime {
				return fmt.Errorf("%s: %w", op, rule.ErrTooSlow)
			}
			return t.Fail(op, err)
		},
	}
}

// shape is how the table says things. A character may have up to four bytes, so that the end of a text
// has a byte at least for each that is asked for.
func (t *Table) shape(found *inspection) rule.Shape {
	s := rule.Shape{
		Columns: map[string]rule.Column{}, Uses: t.config.Uses, Table: t.name.quoted(),
		Owner: t.config.ClaimColumn, Worker: t.config.Worker, Now: "UNIX_TIMESTAMP()", Clock: clock,
		Code: "CAST(return_code AS SIGNED)", Hint: " FORCE INDEX (%s)", Quote: quote, Output: found.output,
		Locking: " " + found.version.locking(), Dirty: readUncommitted,
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

// readUncommitted lets the next transaction, or the next statement where none is open, see what
// others have not committed. It holds for no other.
const readUncommitted = "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; "

// clock is the server's, in microseconds since 1970. UNIX_TIMESTAMP of a time would go by the server's
// time zone, in which an hour comes twice a year.
const clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// within is a SELECT that the server gives up after a time. The client may be gone before: that only
// closes the connection, and without an index the server would read on through the whole table.
func (l *layout) within(limit time.Duration, selects string) string {
	query := "SELECT /*+ MAX_EXECUTION_TIME(" + strconv.FormatInt(limit.Milliseconds(), 10) + ") */" + selects
	if l.version.mariaDB && l.version.since(nil, []int{10, 1, 2}) { // which takes the hint for a comment
		query = "SET STATEMENT max_statement_time = " + strconv.Itoa(int(limit.Seconds())) + " FOR " + query
	}
	return query
}

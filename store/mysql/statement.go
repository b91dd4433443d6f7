package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"slices"
	"strings"

	driver "github.com/go-sql-driver/mysql"
)

// statement is one statement of a transaction, or several that need no arguments; each ends in ";
// ".
type statement struct {
	query string
	args  []any
}

var commit = statement{query: "COMMIT; "}

// send sends statements and tells how many rows each matched: in one round trip, but on a node of a
// Galera cluster one by one. There a transaction of another node may undo ours at any moment, and a
// server to which that happens between two statements of a packet does not tell: what follows is no
// part of a transaction any more, and COMMIT succeeds (measured with MariaDB 10.11).
func (l *layout) send(ctx context.Context, conn *sql.Conn, statements ...statement) (matched []int64, err error) {
	packet := len(statements)
	if l.galera {
		packet = 1
	}
	for some := range slices.Chunk(statements, packet) {
		met, err := sendPacket(ctx, conn, some)
		if err != nil {
			return nil, err
		}
		matched = append(matched, met...)
	}
	return matched, nil
}

// sendPacket sends statements in one round trip. The driver's own result is needed: database/sql's
// knows the last statement only.
func sendPacket(ctx context.Context, conn *sql.Conn, statements []statement) (matched []int64, err error) {
	var query strings.Builder
	var args []sqldriver.NamedValue
	for _, one := range statements {
		query.WriteString(one.query)
		for _, arg := range one.args {
			args = append(args, sqldriver.NamedValue{Ordinal: len(args) + 1, Value: arg})
		}
	}
	err = conn.Raw(func(raw any) error {
		result, err := raw.(sqldriver.ExecerContext).ExecContext(ctx, strings.TrimSuffix(query.String(), "; "), args)
		if err != nil {
			return err
		}
		matched = result.(driver.Result).AllRowsAffected()
		if len(matched) < len(statements) {
			return fmt.Errorf("%d results for %d statements", len(matched), len(statements))
		}
		return nil
	})
	return matched, err
}

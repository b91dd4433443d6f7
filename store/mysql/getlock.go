package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// takeLock tries to take a lock, for some seconds.
func (t *Table) takeLock(ctx context.Context, name string, seconds int) (bool, error) {
	var taken sql.NullBool
	query := fmt.Sprintf("SELECT GET_LOCK(%s, %d)", lockName, seconds)
	err := t.advisory.conn.QueryRowContext(ctx, query, t.lockNames(name)...).Scan(&taken)
	return taken.Bool, err
}

// holderOf tells which connection has a lock: the same words each time for the same one.
func (t *Table) holderOf(ctx context.Context, name string) (id int64, holder string, err error) {
	var used sql.NullInt64
	err = t.advisory.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK("+lockName+")", t.lockNames(name)...).Scan(&used)
	if err != nil || !used.Valid {
		return 0, "", err
	}
	id, holder = used.Int64, fmt.Sprintf("connection %d", used.Int64)
	var host sql.NullString
	err = t.advisory.conn.QueryRowContext(ctx, "SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = ?", id).Scan(&host)
	if err == nil && host.String != "" {
		return id, holder + " from " + host.String, nil
	}
	if number(err) == 0 && !errors.Is(err, sql.ErrNoRows) {
		return 0, "", err
	}
	return id, holder, nil // the account may not see other accounts' connections
}

// lockName is the lock's name, of which a server knows 64 characters at most. Some servers take two
// spellings of a table's name for the same.
const lockName = "IF(@@lower_case_table_names = 0, ?, ?)"

// lockNames are the arguments of lockName.
func (t *Table) lockNames(name string) []any {
	hashed := func(database, table string) string {
		sum := sha256.Sum256([]byte(database + "\x00" + table + "\x00" + name))
		const bytes = 20
		return "jobd:" + hex.EncodeToString(sum[:bytes])
	}
	return []any{
		hashed(t.name.database, t.name.table),
		hashed(strings.ToLower(t.name.database), strings.ToLower(t.name.table)),
	}
}

// isRefusedLock tells that the server has no advisory locks, or none for this account, from what is
// wrong for the moment: a statement or a connection that was ended, a server that shuts down, a
// deadlock.
func isRefusedLock(err error) bool {
	switch number(err) {
	case 0, errLockWaitTimeout, errDeadlock, 3058, 1053, 1077, 1078, 1079, 1317, 1927, 1969, 3024, 4031:
		return false
	}
	return true
}

package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	driver "github.com/go-sql-driver/mysql"

	"jobd/store"
	"jobd/store/internal/rule"
)

// The server's errors by number, as the servers' manuals list them.
//
// A trigger may raise any of them with SIGNAL. So a number says how to try again, and what may be
// wrong; that the table is out of reach is only believed when the table itself, asked without any
// row, says so too: see Table.fail.
const (
	errLockWaitTimeout = 1205
	errDeadlock        = 1213
	errRecordChanged   = 1020 // MariaDB with innodb_snapshot_isolation
	errIsolationLevel  = 1665

	// The commit failed: a storage engine, the binary log or a replication plugin refused it.
	// Nearly always it was rolled back, but the server does not promise that. So applying is done
	// again; a claim is in doubt.
	errDuringCommit = 1180
	// Group Replication rolled the transaction back at its commit, in favour of another member's:
	// like a deadlock.
	errGroupRollback = 3101
	// NOWAIT met a locked row: like 1205, without the wait.
	errLockNoWait = 3572
	// The server does not have what a statement uses. Applying uses nothing that a server could
	// lack, so a row's trigger is at fault and the row is held; where the table itself can't be
	// updated for it, the table is unusable.
	errNotSupported  = 1235
	errTableDenied   = 1142
	errNoSuchIndex   = 1176 // of FORCE INDEX: somebody has dropped or renamed it
	errInTransaction = 1568 // of SET TRANSACTION: one is open
	// A query took longer than it may: MariaDB, MySQL.
	errStatementTime = 1969
	errExecutionTime = 3024
)

// faults are what the numbers say of a failed transaction; those that are not here, that it failed for
// the moment. That a query was interrupted (1317, 1969, 3024) is such a case: the connection goes on, and
// the statement may be done again.
var faults = sync.OnceValue(func() map[uint16]rule.Fault {
	found := map[uint16]rule.Fault{}
	for fault, numbers := range map[rule.Fault][]uint16{
		// Errors of the configuration, the account or the table.
		rule.Unusable: {
			1044, 1045, 1698, // access denied, to the database or at all
			1130,                 // this host may not connect
			errTableDenied, 1143, // no SELECT or UPDATE on the table or a column
			1227,                   // a privilege is missing
			1251,                   // the account's authentication is not supported
			1820, 1862, 3118, 4151, // password expired, account locked
			1524, 3159, // no such means of authentication; TLS only
			1046, 1049, 1102, // no database, unknown database, wrong name
			1103, 1146, // wrong table name, no such table
			1054, // no such column
			1064, // not understood: not a server we know
			1193, // no such variable: likewise
			errNotSupported,
		},
		// Errors by which a server ends a connection, makes none, or takes no writes.
		rule.Unreachable: append(readOnlyNumbers(),
			1040, 1203, 1226, // too many connections, of all or of the account; too many of something in an hour
			1129,                               // the host is blocked
			1152, 1158, 1159, 1160, 1161, 1184, // the connection broke, as the server saw it
			1053,       // shutdown in progress
			1927, 4031, // the connection was killed, or idle for too long
			1047, // a node that has left its Galera cluster
		),
		// A column cannot hold what an update writes, or the server takes no packet of its size. The same
		// update fails for ever, and one that writes less need not.
		rule.Values: {
			1048,             // NULL where a column takes none
			1118, 1153, 1406, // row, packet or column too long
			1264, 1265, // out of range, or truncated
			1267, 1271, 1300, 1366, 1977, 3854, // characters that the column cannot hold
			1292, 1411, 3140, // a value of the wrong kind
		},
		// Rules that the application has for the row. The update is refused as long as they last, and is
		// right as it is: one that writes less would only lose what the job has brought.
		rule.Rule: {
			1062, 1169, // a unique index
			1451, 1452, 3819, 4025, // a foreign key, a CHECK
			1442, 1644, // a trigger
		},
	} {
		for _, number := range numbers {
			found[number] = fault
		}
	}
	return found
})

// readOnlyNumbers are errors of a server that takes no writes, such as one that was demoted
// (pitfall 14): another connection may reach one that does.
func readOnlyNumbers() []uint16 {
	return []uint16{
		1290, // --read-only and its like
		1792, // a read-only transaction
		1836, // read-only mode
	}
}

// number is the server's number of an error; 0: it is not the server's.
func number(err error) uint16 {
	var server *driver.MySQLError
	if errors.As(err, &server) {
		return server.Number
	}
	return 0
}

// sortError tells what an error says. The driver and the link are believed, a number alone is not.
func sortError(err error) (fault rule.Fault, certain bool) {
	var misfit rule.Misfit
	var unusable *store.Unusable
	var unreachable *store.Unreachable
	switch {
	case errors.As(err, &misfit), errors.As(err, &unusable),
		slices.ContainsFunc(driverRefusals(), func(refusal error) bool { return errors.Is(err, refusal) }):
		return rule.Unusable, true
	case errors.As(err, &unreachable), lostLink(err):
		return rule.Unreachable, true
	case errors.Is(err, driver.ErrPktTooLarge), errors.Is(err, sqldriver.ErrSkip):
		return rule.Values, true
	}
	fault = faults()[number(err)]
	return fault, fault <= rule.Whole
}

// isDubious tells a number that would mean that the whole table is out of reach, if a trigger did
// not raise it.
func isDubious(err error) bool { return faults()[number(err)] > rule.Whole }

// isReadOnly tells that the connection's server takes no writes, or says so.
func isReadOnly(err error) bool { return slices.Contains(readOnlyNumbers(), number(err)) }

// isLockWait tells that somebody else's lock was waited for in vain, on a row or on the table.
func isLockWait(err error) bool {
	n := number(err)
	return n == errLockWaitTimeout || n == errLockNoWait
}

// isTransient tells what may well succeed at once when the whole transaction is done again.
// driver.ErrBadConn means that nothing was sent.
func isTransient(err error) bool {
	switch number(err) {
	case errDeadlock, errRecordChanged, errIsolationLevel, errDuringCommit, errGroupRollback, errNoSuchIndex:
		return true
	}
	return isLockWait(err) || isReadOnly(err) || errors.Is(err, sqldriver.ErrBadConn)
}

// overtaken marks the errors by which a server says, also at a COMMIT (pitfall 15), that it did not
// commit because of another transaction.
func overtaken(err error) error {
	switch number(err) {
	case errLockWaitTimeout, errDeadlock, errRecordChanged, errGroupRollback, errLockNoWait:
		return &store.Overtaken{Err: err}
	}
	return err
}

// lostLink tells that a connection is gone or was never made: the next one may
// reach another server. That the caller's own time is over tells nothing of the link.
func lostLink(err error) bool {
	for _, broken := range []error{driver.ErrInvalidConn, driver.ErrMalformPkt, driver.ErrPktSync, driver.ErrPktSyncMul, sqldriver.ErrBadConn} {
		if errors.Is(err, broken) {
			return true
		}
	}
	var network net.Error
	if !errors.As(err, &network) {
		return false
	}
	return network != net.Error(context.DeadlineExceeded.(net.Error))
}

// explained adds to an error of the way to the table which keys lead there. The server's own words say what
// is wrong, and come first. What was found wrong with the table says itself what it is about.
func (t *Table) explained(err error) error {
	var misfit rule.Misfit
	if errors.As(err, &misfit) {
		return err
	}
	key := ""
	if number(err) == 1045 && !t.config.isNear() && t.config.ServerKey == "" && (t.config.TLS == nil || t.config.PreferTLS) {
		key = wantsKey
	}
	return fmt.Errorf("%w: %s%s", err, t.way(), key)
}

// driverRefusals are errors that the driver itself finds in an account or a server.
func driverRefusals() []error {
	return []error{
		driver.ErrCleartextPassword, driver.ErrNativePassword, driver.ErrOldPassword,
		driver.ErrUnknownPlugin, driver.ErrOldProtocol,
	}
}

// way is where the server is and who asks it, with the keys that say so.
func (t *Table) way() string {
	where := net.JoinHostPort(t.config.Host, strconv.Itoa(t.config.Port)) + " (mysql_host, mysql_port)"
	if strings.HasPrefix(t.config.Host, "/") {
		where = t.config.Host + " (mysql_host)"
	}
	if t.config.TLS != nil {
		where += " with TLS (mysql_tls_ca, mysql_tls_name)"
	}
	return fmt.Sprintf("table %s at %s, user %s (mysql_user)", t.name.quoted(), where, literal(t.config.User))
}

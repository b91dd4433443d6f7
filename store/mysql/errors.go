package mysql

import (
	sqldriver "database/sql/driver"
	"errors"
	"net"
	"slices"

	driver "github.com/go-sql-driver/mysql"

	"jobd/store"
)

// The server's errors by number, as both servers' manuals list them.
const (
	errTooManyStatementBytes = 1153
	errColumnNotNull         = 1048
	errLockWaitTimeout       = 1205
	errDeadlock              = 1213
	errRecordChanged         = 1020 // MariaDB with innodb_snapshot_isolation
	errOutOfRange            = 1264
	errTruncated             = 1265
	errIsolationLevel        = 1665
)

// unusableNumbers are errors of the configuration, the account or the table.
func unusableNumbers() []uint16 {
	return []uint16{
		1044, 1045, 1698, // access denied, to the database or at all
		1130,       // this host may not connect
		1142, 1143, // no SELECT or UPDATE on the table or a column
		1227,                   // a privilege is missing
		1251,                   // the account's authentication is not supported
		1820, 1862, 3118, 4151, // password expired, account locked
		1046, 1049, 1102, // no database, unknown database, wrong name
		1103, 1146, // wrong table name, no such table
		1054, // no such column
		1064, // not understood: not a server we know
		1193, // no such variable: likewise
	}
}

// refusedNumbers are errors of one update: its values, or a rule of the
// application's against them. The same update fails for ever; others need not.
func refusedNumbers() []uint16 {
	return []uint16{
		errColumnNotNull, errTooManyStatementBytes, errOutOfRange, errTruncated,
		1062, 1169, // a unique index
		1118, 1406, // row or column too long
		1267, 1271, 1300, 1366, 1977, 3854, // characters that the column cannot hold
		1292, 1411, 3140, // a value of the wrong kind
		1451, 1452, 3819, 4025, // a foreign key, a CHECK
		1442, 1644, // a trigger
	}
}

// driverRefusals are errors that the driver itself finds in an account or a server.
func driverRefusals() []error {
	return []error{
		driver.ErrCleartextPassword, driver.ErrNativePassword, driver.ErrOldPassword,
		driver.ErrUnknownPlugin, driver.ErrOldProtocol, driver.ErrNoTLS,
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

// isUnusable tells what waiting cannot mend.
func isUnusable(err error) bool {
	var already *store.Unusable
	var table misfit
	return errors.As(err, &already) || errors.As(err, &table) || slices.Contains(unusableNumbers(), number(err)) ||
		slices.ContainsFunc(driverRefusals(), func(refusal error) bool { return errors.Is(err, refusal) })
}

// isRefused tells what is wrong with one update and stays so.
func isRefused(err error) bool {
	return slices.Contains(refusedNumbers(), number(err)) || errors.Is(err, driver.ErrPktTooLarge) || errors.Is(err, sqldriver.ErrSkip)
}

// isTransient tells what may well succeed at once when the whole transaction is done again.
// driver.ErrBadConn means that nothing was sent, or that the server is read-only (pitfall 14).
func isTransient(err error) bool {
	switch number(err) {
	case errLockWaitTimeout, errDeadlock, errRecordChanged, errIsolationLevel:
		return true
	}
	return errors.Is(err, sqldriver.ErrBadConn)
}

// overtaken marks the errors by which a server says, also at a COMMIT (pitfall 15), that it did not
// commit because of another transaction.
func overtaken(err error) error {
	switch number(err) {
	case errLockWaitTimeout, errDeadlock, errRecordChanged:
		return &store.Overtaken{Err: err}
	}
	return err
}

// lostLink tells that a connection is gone or was never made: the next one may
// reach another server.
func lostLink(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, driver.ErrInvalidConn) || errors.Is(err, sqldriver.ErrBadConn)
}

// errNotWritable explains sqldriver.ErrBadConn, whose own words say too little.
var errNotWritable = errors.New("the server takes no writes (read-only) or closes every connection")

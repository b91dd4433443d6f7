package sqlite

import (
	"errors"

	"modernc.org/sqlite"
	library "modernc.org/sqlite/lib"

	"jobd/store/internal/rule"
)

// code is SQLite's primary result code of an error; 0: it is not SQLite's.
func code(err error) int { return kind(err) & 0xff }

// kind is SQLite's extended result code of an error; 0: it is not SQLite's.
func kind(err error) int {
	var failure *sqlite.Error
	if errors.As(err, &failure) {
		return failure.Code()
	}
	return 0
}

// isDubious tells an error that is the table's where every statement meets it, and a row's where
// only some do: a trigger fails with it, too.
func isDubious(err error) bool { return code(err) == library.SQLITE_ERROR }

// isUnusable tells what waiting cannot mend: the file's path, its permissions, its content.
func isUnusable(err error) bool {
	var table rule.Misfit
	if errors.As(err, &table) {
		return true
	}
	switch code(err) {
	case library.SQLITE_ERROR, library.SQLITE_CANTOPEN, library.SQLITE_NOTADB, library.SQLITE_CORRUPT,
		library.SQLITE_READONLY, library.SQLITE_PERM, library.SQLITE_AUTH:
		return true
	}
	return false
}

// isOfValues tells that a column cannot hold what one update writes.
func isOfValues(err error) bool {
	switch code(err) {
	case library.SQLITE_TOOBIG, library.SQLITE_MISMATCH:
		return true
	case library.SQLITE_CONSTRAINT:
		return kind(err) == library.SQLITE_CONSTRAINT_NOTNULL || kind(err) == library.SQLITE_CONSTRAINT_DATATYPE
	}
	return false
}

// isOfRule tells that a rule of the application's refuses one update: a CHECK, a trigger, a foreign
// key, a unique index. The update is right as it is, and one that writes less would only lose what
// the job has brought.
func isOfRule(err error) bool { return code(err) == library.SQLITE_CONSTRAINT && !isOfValues(err) }

// aboutRows tells errors that an update may have met because of its rows from those of the file or
// the disk.
func aboutRows(err error) bool {
	switch code(err) {
	case library.SQLITE_ERROR, library.SQLITE_CONSTRAINT, library.SQLITE_TOOBIG, library.SQLITE_MISMATCH, library.SQLITE_RANGE,
		library.SQLITE_ABORT, library.SQLITE_LOCKED, library.SQLITE_SCHEMA:
		return true
	}
	return false
}

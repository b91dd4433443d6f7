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

// sortError tells what an error says. Of an SQLITE_ERROR the table has to be asked: it is the table's
// where every statement meets it, and a row's where only some do, since a trigger fails with it, too. What
// a rule refuses (a CHECK, a trigger, a foreign key, a unique index) is right as it is.
func sortError(err error) (fault rule.Fault, certain bool) {
	var misfit rule.Misfit
	if errors.As(err, &misfit) {
		return rule.Unusable, true
	}
	switch code(err) {
	case library.SQLITE_ERROR:
		return rule.Unusable, false
	case library.SQLITE_CANTOPEN, library.SQLITE_NOTADB, library.SQLITE_CORRUPT,
		library.SQLITE_READONLY, library.SQLITE_PERM, library.SQLITE_AUTH: // the file's path, its permissions, its content
		return rule.Unusable, true
	case library.SQLITE_TOOBIG, library.SQLITE_MISMATCH:
		return rule.Values, true
	case library.SQLITE_CONSTRAINT:
		if kind(err) == library.SQLITE_CONSTRAINT_NOTNULL || kind(err) == library.SQLITE_CONSTRAINT_DATATYPE {
			return rule.Values, true
		}
		return rule.Rule, true
	}
	return rule.Whole, true
}

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

package sqlite

import (
	"errors"

	"modernc.org/sqlite"
	library "modernc.org/sqlite/lib"
)

// code is SQLite's primary result code of an error; 0: it is not SQLite's.
func code(err error) int {
	var failure *sqlite.Error
	if errors.As(err, &failure) {
		return failure.Code() & 0xff // the rest says which kind of it
	}
	return 0
}

// isDubious tells an error that is the table's where every statement meets it, and a row's where only some do: a trigger
// fails with it, too.
func isDubious(err error) bool { return code(err) == library.SQLITE_ERROR }

// isUnusable tells what waiting cannot mend: the file's path, its permissions, its content.
func isUnusable(err error) bool {
	var table misfit
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

// isRefused tells what is wrong with one update and stays so: a rule of the application's
// against its values, or their size.
func isRefused(err error) bool {
	switch code(err) {
	case library.SQLITE_CONSTRAINT, library.SQLITE_TOOBIG, library.SQLITE_MISMATCH:
		return true
	}
	return false
}

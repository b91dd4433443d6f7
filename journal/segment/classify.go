package segment

import (
	"errors"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"jobd/journal"
)

// Damaged tells SQLite's errors about an unreadable database apart from others.
func Damaged(err error) error {
	var e *sqlite.Error
	var known *journal.DamagedError
	if !errors.As(err, &e) || errors.As(err, &known) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT,
		sqlite3.SQLITE_ERROR: // our statements are right: the tables are not those that they are about
		return &journal.DamagedError{Err: err}
	}
	return err
}

// Full reports whether an error means that the disk has no room.
func Full(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_FULL || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// NoRoom reports whether a journal could not be opened because the disk has no room: for the database, or
// for the file that SQLite keeps beside it and makes anew with each opening. In the midst of appending
// the latter is no Full: what was to be appended may stand in the database all the same.
func NoRoom(err error) bool {
	var e *sqlite.Error
	return Full(err) || errors.As(err, &e) && e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE
}

// IsDamage reports whether an error is about the journal, not about the reading.
func IsDamage(err error) bool {
	var d *journal.DamagedError
	return errors.As(Damaged(err), &d)
}

// Wrong says at which event damage was met. Other errors (no access, no memory, a context's
// end) are not about the journal, and stay as they are.
func Wrong(seq uint64, err error) error {
	var d *journal.DamagedError
	if err = Damaged(err); errors.As(err, &d) && d.Seq == 0 {
		return &journal.DamagedError{Seq: seq, Err: d.Err, Detail: d.Detail}
	}
	return err
}

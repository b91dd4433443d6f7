package journal

import (
	"errors"
	"fmt"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrClosed is returned by a journal that was closed.
var ErrClosed = errors.New("journal is closed")

// ErrNoClaim is among the causes where a claim is not in the history, or not any more.
var ErrNoClaim = errors.New("the history has no such claim")

// ErrFull says that the disk has no room; nothing was appended, and the journal is
// intact. The same append may be tried again later.
var ErrFull = errors.New("no space left for the journal")

// DamagedError says that the journal does not hold what was once appended.
type DamagedError struct {
	Seq    uint64 // the first event concerned; 0 where it cannot be told
	Last   uint64 // the last one; 0 where it cannot be told
	Detail string
	Err    error // the cause, where another error tells
}

// Error implements error.
func (e *DamagedError) Error() string {
	text := "journal is damaged"
	if e.Seq > 0 {
		text += fmt.Sprintf(" at event %d", e.Seq)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// damaged tells SQLite's errors about an unreadable database apart from others.
func damaged(err error) error {
	var e *sqlite.Error
	var known *DamagedError
	if !errors.As(err, &e) || errors.As(err, &known) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT,
		sqlite3.SQLITE_ERROR: // our statements are right: the tables are not those that they are about
		return &DamagedError{Err: err}
	}
	return err
}

// full tells whether an error means that the disk has no room.
func full(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_FULL || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

package journal

import (
	"errors"
	"fmt"
	"time"
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
	Seq    uint64 // the first event concerned; 0 where it is not known
	Last   uint64 // the last one; 0 where it is not known
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

// RemovedError says that what was asked for was removed by retention.
type RemovedError struct {
	First uint64    // the oldest event that is kept
	Since time.Time // when the newest event happened that is not
}

// Error implements error.
func (e *RemovedError) Error() string {
	return fmt.Sprintf("the history up to %s was removed by retention; it is kept from event %d on", stamp(e.Since), e.First)
}

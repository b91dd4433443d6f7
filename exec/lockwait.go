package exec

import (
	"context"
	"time"

	"jobd/exec/board"
)

// What somebody waits for at most whose rows somebody else holds, and how long between two tries.
const (
	lockTimeout = 5 * time.Second
	firstLock   = 50 * time.Millisecond
	longLock    = 500 * time.Millisecond
)

// lockWait is the time between tries of rows that somebody else holds.
type lockWait struct {
	until time.Time     // zero: no row was locked yet
	rest  board.Backoff // until they are tried again
}

// met tells whether a row was locked.
func (l *lockWait) met() bool { return !l.until.IsZero() }

// again waits until the rows are to be tried again. It is false when they were tried for long
// enough, or nobody is there any more who wants them: gone is closed then, and may be nil.
func (l *lockWait) again(ctx context.Context, gone <-chan struct{}) bool {
	if !l.met() {
		l.until = time.Now().Add(lockTimeout)
	}
	l.rest.Grow(time.Now(), firstLock, longLock)
	if l.rest.Due.After(l.until) {
		return false
	}
	timer := time.NewTimer(time.Until(l.rest.Due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-gone:
	case <-ctx.Done():
	}
	return false
}

package exec

import (
	"time"

	"jobd/exec/board"
)

// target is a target of the board, with what claims for it have found. The worker's mutex guards
// it.
type target struct {
	*board.Target
	polls   int           // how often a poll was asked for
	polled  int           // the poll that was last answered by an exhausted table
	unfit   string        // why the table can't hold the name, or takes it for another one; "" where it does not
	look    board.Backoff // rows wait that somebody else's lock hid from a claim
	locked  locked
	trouble trouble // of its claims
	sweep   sweep   // where there are too many refused rows to remember
	bucket  bucket  // the starts in hand, where the rate is limited
	dues    dues    // when its delayed rows are due, as far as is known
}

// trouble is what is wrong with the claims of one target.
type trouble struct {
	failed int           // claims that failed, one after the other
	narrow int           // most rows of the next claim; 0: no limit of its own
	rest   board.Backoff // until when nothing is claimed for it
	why    string        // in words for the operator; "" where nothing is wrong
}

// How long a target rests after a claim of it that failed.
const (
	firstRest = 20 * time.Millisecond
	longRest  = 10 * time.Second
)

// suspected tells whether claims for the target are made apart from those for others: two that
// failed may have been its fault.
func (t *trouble) suspected() bool { return t.failed >= 2 }

// wanted tells whether the table may hold jobs that were not claimed yet.
func (t *target) wanted() bool { return t.polls > t.polled }

// room is how many jobs to claim now.
func (t *target) room(prefetch int, now time.Time) int {
	if t.unfit != "" || !t.trouble.rest.Due.IsZero() || !t.wanted() {
		return 0
	}
	n := t.Room(prefetch)
	if t.trouble.narrow > 0 {
		n = min(n, t.trouble.narrow)
	}
	if n > 0 && t.bucket.limit != nil {
		n = min(n, t.bucket.room(t.Unstarted(), now))
	}
	return n
}

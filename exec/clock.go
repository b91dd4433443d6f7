package exec

import (
	"log/slog"
	"time"
)

// When a delayed row is due says the clock of the table's server, which every worker has in common.
// The worker learns what it says whenever it asks when rows are due, and goes on from there by its
// own monotonic clock, which nobody sets.

// clock is what is known of the server's clock. The worker's mutex guards it.
type clock struct {
	told   time.Time // what it said last; zero: it was never asked
	at     time.Time // when that was
	warned time.Duration
}

const (
	// mostAhead is how far the two clocks may be apart without a word.
	mostAhead = 5 * time.Second
	// sameAhead is how much that may change without another one.
	sameAhead = time.Second
	// freshClock is for how long the server's clock is taken to go as the worker's does. A server
	// whose clock is set is noticed within it, where rows are delayed.
	freshClock = 10 * time.Minute
	// freshWall is how often it is looked whether the worker's own clock was set, which tells that the
	// server's may have been as well: the machine has slept, say.
	freshWall = 30 * time.Second
)

// now is what the server's clock says: as far as that is not known, the same as the worker's.
func (c *clock) now(now time.Time) time.Time {
	if c.told.IsZero() {
		return now
	}
	return c.told.Add(now.Sub(c.at))
}

// local is when the server's clock says a time, by the worker's, as timers have it.
func (c *clock) local(at time.Time, now time.Time) time.Time { return now.Add(at.Sub(c.now(now))) }

// ahead is how far the server's clock is ahead of the worker's.
func (c *clock) ahead(now time.Time) time.Duration { return c.now(now).Sub(now) }

// asked takes in what the server's clock said between two moments. An answer that took long says
// little; but it is the newest.
func (c *clock) asked(told, from, until time.Time, log *slog.Logger) {
	if told.IsZero() {
		return
	}
	c.told, c.at = told, from.Add(until.Sub(from)/2)
	ahead := c.ahead(until)
	if (ahead - c.warned).Abs() <= sameAhead {
		return
	}
	switch {
	case ahead.Abs() > mostAhead:
		log.Warn("the clock of the database server and that of this worker differ; rows are due by the server's, and times of runs are the worker's",
			"server is ahead by", ahead.Round(time.Millisecond))
		c.warned = ahead
	case c.warned != 0:
		log.Info("the clocks of the database server and of this worker agree again")
		c.warned = 0
	}
}

// stale tells whether the server's clock is to be asked again: it was asked too long ago, or the
// worker's own clock has been set since.
func (c *clock) stale(now time.Time) bool {
	if c.told.IsZero() {
		return false
	}
	ran, wall := now.Sub(c.at), now.Round(0).Sub(c.at.Round(0))
	return ran > freshClock || jumped(ran, wall)
}

// jumped tells whether a clock that nobody sets, and one that people do, have gone apart.
func jumped(ran, wall time.Duration) bool { return (ran - wall).Abs() > sameAhead }

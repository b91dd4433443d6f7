package exec

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"jobd/exec/board"
	"jobd/journal"
)

// A claim that left room asks when the next delayed row is due, and comes back then. So does one
// behind every row that this worker itself makes delayed. Of each target one time is remembered: the
// next look asks when the following one is due. A look too many finds nothing.

// behindDue is how much later than a row is due it is looked for. The clocks are known to each other
// only so well, and a look too early must be repeated.
const behindDue = 10 * time.Millisecond

func dueAt(second int64) time.Time { return time.Unix(second, 0).Add(behindDue) }

// comes remembers when a row of the target is due, where none is known that is due before.
func (t *target) comes(at int64) {
	if at < journal.Century && (t.next == 0 || at < t.next) {
		t.next = at
	}
}

// askDue asks the table when delayed rows of targets are due next.
func (w *Worker) askDue(ctx context.Context, targets []string, except []int64) (due journal.Due, err error) {
	if !w.Delays {
		return due, nil
	}
	from := time.Now()
	due, err = w.Table.NextDue(ctx, targets, except)
	until := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock.learn(due.Now, from, until, w.Logger)
	return due, err
}

// learnClock asks the table for its server's clock, where that was never told: the ends of what a former
// run has left are planned by it, too.
func (w *Worker) learnClock(ctx context.Context) {
	w.mu.Lock()
	known, names := !w.clock.told.IsZero(), w.fitNames()
	w.mu.Unlock()
	if !known {
		_, _ = w.askDue(ctx, names, nil) // the next claim brings it
	}
}

// takeDues has targets looked at of which a row is due by now, or where the server's clock was asked
// too long ago to tell. Where none of their slots is free here, others are told. Callers must hold w.mu.
func (w *Worker) takeDues(now time.Time) {
	if !w.Delays {
		return
	}
	server, stale := w.clock.now(now), w.clock.stale(now)
	if stale {
		w.clock.again = now.Add(freshClock)
	}
	var full []string
	for name, t := range w.targets {
		switch {
		case t.next == 0:
		case !server.Before(dueAt(t.next)):
			t.next = 0
			if t.polls++; t.Room(w.Prefetch) <= 0 {
				full = append(full, name)
			}
		case stale:
			t.polls++
		}
	}
	if len(full) > 0 {
		w.others.Go(func() { w.OnRetried(full) })
	}
}

// nextDue is when the worker looks for a row next, or asks the server's clock; zero where it knows no
// delayed row. Callers must hold w.mu.
func (w *Worker) nextDue(now time.Time) (first time.Time) {
	for _, t := range w.targets {
		if t.next != 0 {
			if at := w.clock.local(dueAt(t.next), now); first.IsZero() || at.Before(first) {
				first = at
			}
		}
	}
	if again := w.clock.again; !first.IsZero() && !again.IsZero() && again.Before(first) {
		return again
	}
	return first
}

// expect remembers when rows are due that this worker has made delayed, and looks at them once the
// table shows them: a row whose schedule was edited meanwhile is due at another time. Callers must
// hold w.mu.
func (w *Worker) expect(coming []board.Coming) {
	if len(coming) == 0 {
		return
	}
	for _, c := range coming {
		if t, served := w.targets[c.Target]; served {
			t.comes(c.At)
		}
	}
	w.wake()
	w.others.Go(func() {
		if !w.eventually(w.Mirror.Tried(coming[len(coming)-1].Seq), nil) {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range coming {
			w.poll(c.Target)
		}
	})
}

// eventually waits for one of two things; it is false when the worker takes no more turns.
func (w *Worker) eventually(done <-chan struct{}, rung <-chan time.Time) bool {
	select {
	case <-done:
	case <-rung:
	case <-w.turned:
		return false
	}
	return true
}

// When a delayed row is due says the clock of the table's server, which every worker has in common.
// Every row that is read under a lock brings what it says, so each claim plans by it, and so does each
// answer about rows that are due. In between the worker goes on by its own monotonic clock, which
// nobody sets.

// clock is what is known of the server's clock. The worker's mutex guards it.
type clock struct {
	told   time.Time // what it says at the worker's time at; zero: it was never asked
	at     time.Time
	again  time.Time // when the worker asks it again; zero: it never asked
	warned time.Duration
}

const (
	// mostAhead is how far the two clocks may be apart without a word.
	mostAhead = 5 * time.Second
	// sameAhead is how much that may change without another one.
	sameAhead = time.Second
	// freshClock is for how long the server's clock is taken to go as the worker's does. A server
	// whose clock is set, and a machine that has slept, are noticed within it, where rows are delayed.
	freshClock = 10 * time.Minute
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

// learn takes in what the server's clock said between two moments of the worker's. What is known
// already changes no more than the answer makes sure: one that took long says little.
func (c *clock) learn(told, from, until time.Time, log *slog.Logger) {
	if told.IsZero() {
		return
	}
	took := until.Sub(from)
	since := took / 2 // the answer
	if !c.told.IsZero() {
		known := c.now(until)
		since = min(max(known.Sub(told), 0), took)
		tellStep(log, "the clock of the database server was set", told.Add(since).Sub(known))
		tellStep(log, "the clock of this worker's machine was set", until.Round(0).Sub(c.at.Round(0))-until.Sub(c.at))
	}
	c.told, c.at, c.again = told.Add(since), until, until.Add(freshClock)
	ahead := c.ahead(until)
	if (ahead - c.warned).Abs() <= sameAhead {
		return
	}
	switch {
	case ahead.Abs() > mostAhead:
		log.Warn("the clocks of the database server and this worker differ: the server's says when rows are due, the worker's when jobs ran",
			"server is ahead by", ahead.Round(time.Millisecond))
		c.warned = ahead
	case c.warned != 0:
		log.Info("the clocks of the database server and of this worker agree again")
		c.warned = 0
	}
}

// tellStep tells that a clock was set, if it was.
func tellStep(log *slog.Logger, text string, by time.Duration) {
	if by.Abs() > sameAhead {
		log.Warn(text, "by", by.Round(time.Millisecond))
	}
}

// readAt takes in what the server's clock said when rows were read that were asked for at a moment.
// Callers must hold w.mu.
func (w *Worker) readAt(rows []journal.Row, asked, now time.Time) {
	if n := len(rows); n > 0 {
		w.clock.learn(rows[n-1].Now, asked, now, w.Logger)
	}
	w.board.SetAhead(w.clock.ahead(now))
}

// stale tells whether the worker asked the server's clock too long ago.
func (c *clock) stale(now time.Time) bool { return !c.again.IsZero() && !now.Before(c.again) }

// bucket holds the starts that a target has in hand, where its rate is limited: one second's worth
// of them, or one. The worker's mutex guards it. Claims take no more rows than there are starts in
// hand; a start takes one, so that what is claimed and given back unstarted costs none. Starts by
// hand are not held up, and count: those that follow wait for longer.
type bucket struct {
	rate  Rate
	limit *rate.Limiter // nil: the rate is not limited
	last  time.Time     // when a former run of the worker has started a job last; zero: long ago
}

// set makes the bucket one of a rate. What was in hand stays, as far as it fits.
func (b *bucket) set(r Rate, now time.Time) {
	if r == b.rate {
		return
	}
	if b.rate = r; r.Starts == 0 {
		b.limit = nil
		return
	}
	limit, burst := rate.Limit(b.perSecond()), b.burst()
	if b.limit == nil {
		b.limit = rate.NewLimiter(limit, burst)
		if begin := b.last; b.last.After(now.Add(-b.rate.each())) && !b.last.After(now) {
			b.limit.AllowN(begin, burst) // it goes on where the former run has left it
		} else {
			b.limit.AllowN(now, burst-1) // it begins with one
		}
		return
	}
	b.limit.SetLimitAt(now, limit)
	b.limit.SetBurstAt(now, burst)
}

// perSecond is how many starts come into hand in a second.
func (b *bucket) perSecond() float64 {
	return float64(b.rate.Starts) / b.rate.Per.Seconds()
}

func (b *bucket) burst() int { return max(1, int(b.perSecond())) }

// room is how many rows may be claimed: as many as there are starts in hand for, beside those that
// jobs will take which were claimed before. Few of many are waited for until there are more.
func (b *bucket) room(claimed int, now time.Time) int {
	if b.missing(claimed, now) > 0 {
		return 0
	}
	return int(b.limit.TokensAt(now)) - claimed
}

// missing is how many starts must come into hand before there is room; none or less: there is.
func (b *bucket) missing(claimed int, now time.Time) float64 {
	const together = 10 // parts of a second: claims for a high rate are made so often
	least := max(1, int(b.perSecond())/together)
	return float64(min(claimed+least, max(b.burst(), claimed+1))) - b.limit.TokensAt(now)
}

// due is when there is room again by itself; zero: there is, or no limit, or what was claimed must
// start first.
func (b *bucket) due(claimed int, now time.Time) time.Time {
	if b.limit == nil || claimed >= b.burst() {
		return time.Time{}
	}
	missing := min(b.missing(claimed, now), float64(b.burst())-b.limit.TokensAt(now))
	if missing <= 0 {
		return time.Time{}
	}
	const rounding = time.Millisecond
	return now.Add(time.Duration(missing/b.perSecond()*float64(time.Second)) + rounding)
}

// take takes a start out of the hand. The next ones pay for one that was not there.
func (b *bucket) take(now time.Time) {
	if b.limit != nil {
		b.limit.ReserveN(now, 1)
	}
}

// usedUp says, in words for the operator, that there is none in hand; "" where there is.
func (b *bucket) usedUp(claimed int, now time.Time) string {
	due := b.due(claimed, now)
	if due.IsZero() {
		return ""
	}
	left := due.Sub(now) + time.Second - time.Nanosecond // a full second that is begun counts
	return "its rate of " + b.rate.String() + " is used up; the next start may be in " + left.Truncate(time.Second).String()
}

// each is the time that one start is for.
func (r Rate) each() time.Duration { return r.Per / time.Duration(max(r.Starts, 1)) }

// String is the rate as the configuration has it.
func (r Rate) String() string {
	return fmt.Sprintf("%d/%s", r.Starts, map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[r.Per])
}

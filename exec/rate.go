package exec

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// bucket holds the starts that a target has in hand, where its rate is limited: one second's worth
// of them, or one. The worker's mutex guards it. Claims take no more rows than there are starts in
// hand; a start takes one, so that what is claimed and given back unstarted costs none. Starts by
// hand are not held up, and count: those that follow wait for longer.
type bucket struct {
	rate  Rate
	share *float64      // of a rate that all workers share, in starts a second: what the master has lent; nil: nothing yet
	limit *rate.Limiter // nil: the rate is not limited
}

// unlent is the part of a rate that all workers share which a worker takes before it has heard of a
// master.
const unlent = 0.1

// set makes the bucket one of a rate. What was in hand stays, as far as it fits.
func (b *bucket) set(r Rate, now time.Time) {
	if r != b.rate {
		b.rate = r
		b.fill(now)
	}
}

// lend makes the share of a rate that all workers share another one.
func (b *bucket) lend(share float64, now time.Time) {
	if b.share == nil || *b.share != share {
		b.share = &share
		b.fill(now)
	}
}

// fill takes in that rate or share have changed.
func (b *bucket) fill(now time.Time) {
	if b.rate.Starts == 0 {
		b.limit = nil
		return
	}
	limit, burst := rate.Limit(b.perSecond()), b.burst()
	if b.limit == nil {
		b.limit = rate.NewLimiter(limit, burst)
		b.limit.AllowN(now, burst-1) // it begins with one
		return
	}
	b.limit.SetLimitAt(now, limit)
	b.limit.SetBurstAt(now, burst)
}

// perSecond is how many starts come into hand in a second.
func (b *bucket) perSecond() float64 {
	all := float64(b.rate.Starts) / b.rate.Per.Seconds()
	switch {
	case !b.rate.Fleet:
		return all
	case b.share == nil:
		return unlent * all
	}
	return min(*b.share, all)
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
	if missing <= 0 || b.perSecond() == 0 {
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

// pay takes a start out of a target's hand. Callers must hold w.mu.
func (w *Worker) pay(target string) {
	if t, served := w.targets[target]; served {
		t.bucket.take(time.Now())
	}
}

// usedUp says, in words for the operator, that there is none in hand; "" where there is.
func (b *bucket) usedUp(claimed int, now time.Time) string {
	due := b.due(claimed, now)
	if due.IsZero() && (b.limit == nil || b.perSecond() > 0) {
		return ""
	}
	of := "its rate of " + b.rate.String()
	if b.rate.Fleet {
		of = fmt.Sprintf("this worker's share of its rate of %s, which is %.3g a second,", b.rate, b.perSecond())
	}
	if due.IsZero() {
		return of + " is lent to other workers for now"
	}
	left := due.Sub(now) + time.Second - time.Nanosecond // a full second that is begun counts
	return of + " is used up; the next start may be in " + left.Truncate(time.Second).String()
}

// String is the rate as the configuration has it.
func (r Rate) String() string {
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[r.Per]
	if unit == "" {
		unit = r.Per.String()
	}
	return fmt.Sprintf("%d/%s", r.Starts, unit)
}

// FleetRate is what a worker tells its masters of a target whose rate all workers share.
type FleetRate struct {
	Target string
	Rate   Rate     // of all workers together
	Wants  bool     // rows wait for it here, as far as is known
	Share  *float64 // what this worker has of it, in starts a second; nil: nothing was lent to it yet
}

// FleetRates lists the targets whose rate all workers share.
func (w *Worker) FleetRates() (list []FleetRate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.board.Names() {
		t, terms := w.targets[name], w.terms[name]
		if terms.Rate.Fleet && terms.Rate.Starts > 0 {
			list = append(list, FleetRate{
				Target: name, Rate: terms.Rate, Share: t.bucket.share,
				Wants: t.Open() && (t.wanted() || t.Unstarted() > 0),
			})
		}
	}
	return list
}

// Lend sets the worker's share of the rate of a target that all workers share, in starts a second.
func (w *Worker) Lend(target string, share float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t, served := w.targets[target]; served && (t.bucket.share == nil || *t.bucket.share != share) {
		t.bucket.lend(share, time.Now())
		w.wake()
	}
}

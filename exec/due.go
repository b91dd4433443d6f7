package exec

import (
	"context"
	"maps"
	"slices"
	"time"

	"jobd/exec/board"
)

// A claim that left room asks when the next delayed row is due, and comes back then. So does one
// behind every row that this worker itself makes delayed. What is remembered are seconds at which a
// target is to be looked at; a look too many finds nothing, and asks once more. Other workers are
// told of rows that come back when the table shows them.

// dues are the seconds, by the clock of the table's server, at which delayed rows of a target are
// due, in order.
type dues []int64

const (
	// mostDues is how many such seconds are remembered: of later ones the table tells in time.
	mostDues = 1000
	// lastDue is the beginning of the year 2100. Nothing is due from there on.
	lastDue = 4102444800
	// behindDue is how much later than a row is due it is looked for. The clocks are known to each other
	// only so well, and a look too early must be repeated.
	behindDue = 10 * time.Millisecond
)

// add remembers one more second.
func (d *dues) add(at int64) {
	place, known := slices.BinarySearch(*d, at)
	if known || at >= lastDue {
		return
	}
	*d = slices.Insert(*d, place, at)
	if len(*d) > mostDues {
		*d = (*d)[:mostDues]
	}
}

// passed forgets the seconds that have come, and tells whether there were any.
func (d *dues) passed(now time.Time) bool {
	n := 0
	for n < len(*d) && !now.Before(dueAt((*d)[n])) {
		n++
	}
	*d = slices.Delete(*d, 0, n)
	return n > 0
}

// next is when the first row is to be looked for; zero where none is known.
func (d dues) next() time.Time {
	if len(d) == 0 {
		return time.Time{}
	}
	return dueAt(d[0])
}

func dueAt(second int64) time.Time { return time.Unix(second, 0).Add(behindDue) }

// askDue asks the table when delayed rows of targets are due next that a claim came back short for;
// left are those of which rows wait or are due already, which look again by themselves. Its error
// concerns everything.
func (w *Worker) askDue(ctx context.Context, short []string, except []int64) error {
	if !w.Delays {
		return nil
	}
	from := time.Now()
	due, err := w.Table.NextDue(ctx, short, except)
	until := time.Now()
	if concernsAll(ctx, err) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock.asked(due.Now, from, until, w.Logger)
	now := w.clock.now(until)
	for _, name := range short {
		t, served := w.targets[name]
		next, delayed := due.Next[name]
		switch {
		case !served:
		case err != nil, delayed && !dueAt(next).After(now): // it has become due since the claim, or somebody holds it
			if t.look.Due.IsZero() {
				t.look.Grow(until, firstLook, longLook)
			}
		case delayed:
			t.dues.add(next)
		}
	}
	return nil
}

// takeDues has targets looked at of which a row is due by now. Where none of their slots is free here,
// others are told. Callers must hold w.mu.
func (w *Worker) takeDues(now time.Time) {
	if !w.Delays {
		return
	}
	server, stale := w.clock.now(now), w.clock.stale(now)
	var full []string
	for name, t := range w.targets {
		switch {
		case t.dues.passed(server):
			if t.polls++; t.Room(w.Prefetch) <= 0 {
				full = append(full, name)
			}
		case stale && len(t.dues) > 0:
			t.polls++
		}
	}
	if len(full) > 0 && w.OnRetried != nil {
		w.others.Go(func() { w.OnRetried(full) })
	}
}

// untilDues is when a row is to be looked for next; zero where none is known. Callers must hold w.mu.
func (w *Worker) untilDues(now time.Time) (first time.Time) {
	for _, t := range w.targets {
		if next := t.dues.next(); !next.IsZero() {
			if at := w.clock.local(next, now); first.IsZero() || at.Before(first) {
				first = at
			}
		}
	}
	return first
}

// expect remembers when rows are due that this worker has made delayed, and has others told. Callers
// must hold w.mu.
func (w *Worker) expect(coming []board.Coming) {
	for _, c := range coming {
		if t, served := w.targets[c.Target]; served {
			t.dues.add(c.At)
		}
		if w.OnRetried != nil {
			w.offers.upTo[c.Target] = max(w.offers.upTo[c.Target], c.Seq)
		}
	}
	if len(coming) == 0 {
		return
	}
	w.wake()
	if !w.offers.telling && len(w.offers.upTo) > 0 {
		w.offers.telling = true
		w.others.Go(w.tellOffers)
	}
}

// offers are targets with rows that come back, of which other workers are to be told: they may have
// asked the table before. The worker's mutex guards them.
type offers struct {
	upTo    map[string]uint64 // by target, the newest event that says so
	telling bool
}

// offerPause is how long others are told nothing more when they were told: each of them asks the
// table then.
const offerPause = time.Second

// tellOffers has others look at targets whose rows come back, once the table shows when.
func (w *Worker) tellOffers() {
	for {
		w.mu.Lock()
		told := w.offers.upTo
		w.offers.upTo, w.offers.telling = make(map[string]uint64), len(told) > 0
		w.mu.Unlock()
		if len(told) == 0 || !w.eventually(w.Mirror.Tried(slices.Max(slices.Collect(maps.Values(told)))), nil) {
			return
		}
		w.OnRetried(slices.Sorted(maps.Keys(told)))
		timer := time.NewTimer(offerPause)
		if !w.eventually(nil, timer.C) {
			return
		}
	}
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

// nextAlarm is when the loop wakes: when something is due, or to see whether a clock was set, so that
// a row is due at another moment than it seemed.
func (w *Worker) nextAlarm(now time.Time) time.Duration {
	wait := w.untilDue(now)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.untilDues(now).IsZero() {
		wait = min(wait, freshWall)
	}
	return wait
}

// onlyClocks tells whether nothing is due, and the loop woke only to see whether a clock was set.
func (w *Worker) onlyClocks(now time.Time) bool {
	if w.untilDue(now) <= 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.untilDues(now).IsZero() && !w.clock.stale(now)
}

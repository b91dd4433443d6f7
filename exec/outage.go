package exec

import (
	"errors"
	"time"

	"jobd/journal"
)

// Outage is what keeps a worker from all that it should do, and since when.
type Outage struct {
	Why   string
	Since time.Time
	Away  bool // the table is out of reach; else something is wrong here
}

// outage is why nothing at all is claimed. The worker's mutex guards it.
type outage struct {
	why      string // "" where nothing is wrong
	since    time.Time
	away     bool
	full     bool      // the journal has no room
	returned time.Time // when the last one ended in which the table was out of reach
}

// note notes how the last try ended. It tells whether it is another outage now, or none.
func (o *outage) note(err error, now time.Time) (changed bool) {
	away := isAway(err)
	if o.away && !away {
		o.returned = now
	}
	if err == nil {
		changed = o.why != ""
		*o = outage{returned: o.returned}
		return changed
	}
	changed = o.why != err.Error()
	if o.why == "" || away != o.away {
		o.since = now
	}
	o.why, o.away, o.full = err.Error(), away, errors.Is(err, journal.ErrFull)
	return changed
}

// status is what clients are told of it.
func (o *outage) status() *Outage {
	if o.why == "" {
		return nil
	}
	return &Outage{Why: o.why, Since: o.since, Away: o.away}
}

// full is how many events wait for room in the journal, since when, and why. The worker's mutex
// guards it.
type full struct {
	waiting int
	since   time.Time
	why     string
}

// noteFull notes that something that has happened can't be journalled, and waits for room.
func (w *Worker) noteFull(err error) (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full.waiting++; w.full.waiting == 1 {
		w.full.since = time.Now()
	}
	w.full.why = err.Error()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.full.waiting--
	}
}

// fullStatus is since when the journal takes nothing for want of room, as far as anything was to be
// journalled; nil where it does. Callers must hold w.mu.
func (w *Worker) fullStatus() *Outage {
	switch {
	case w.full.waiting > 0:
		return &Outage{Why: w.full.why, Since: w.full.since}
	case w.outage.full:
		return w.outage.status()
	}
	return nil
}

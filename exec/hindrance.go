package exec

import (
	"errors"
	"time"

	"jobd/journal"
)

// Hindrance is why a worker claims nothing for a target. That it is paused, that its slots are
// full, and that nothing waits, is none: other fields tell that.
type Hindrance struct {
	Kind  Hindering // "" where nothing is wrong
	Why   string    // in words for the operator
	Since time.Time // zero: not known
}

// Hindering is a kind of hindrance.
type Hindering string

// The kinds of hindrance.
const (
	HinderedStopping  Hindering = "stopping"  // the worker stops
	HinderedName      Hindering = "name"      // the table does not take the target's name
	HinderedDisk      Hindering = "disk"      // the journal has too little room on its disk
	HinderedDatabase  Hindering = "database"  // claims fail, for whatever target
	HinderedStuck     Hindering = "stuck"     // a claim waits for the database
	HinderedUnwritten Hindering = "unwritten" // the table can't be written
	HinderedIdentity  Hindering = "identity"  // another worker has this one's name or id
	HinderedLauncher  Hindering = "launcher"  // no job can be started
	HinderedExecutor  Hindering = "executor"  // no job of this target can be started
	HinderedTrouble   Hindering = "trouble"   // claims for this target fail
	HinderedLocked    Hindering = "locked"    // somebody else holds all rows that wait
	HinderedRate      Hindering = "rate"      // as many jobs were started as its rate allows
)

// hindrance is why nothing is claimed for a target. Callers must hold w.mu.
func (w *Worker) hindrance(t *target, away bool) Hindrance {
	unable, since := t.Starter().Why()
	switch {
	case w.board.Stopping():
		return Hindrance{Kind: HinderedStopping, Why: "the worker stops"}
	case t.unfit != "":
		return Hindrance{Kind: HinderedName, Why: t.unfit}
	case w.outage.full:
		return Hindrance{HinderedDisk, w.outage.Why, w.outage.Since}
	case w.outage.Why != "":
		return Hindrance{HinderedDatabase, w.outage.Why, w.outage.Since}
	case !w.asked.IsZero() && time.Since(w.asked) >= slowClaim:
		return Hindrance{HinderedStuck, "the claim has waited for the database since " + rfc3339(w.asked), w.asked}
	case away:
		return Hindrance{Kind: HinderedUnwritten, Why: "the table can't be written"}
	case w.identity.why != "":
		return Hindrance{HinderedIdentity, w.identity.why, w.identity.since}
	case unable != "" && t.Starter().Own():
		return Hindrance{HinderedExecutor, unable, since}
	case unable != "":
		return Hindrance{HinderedLauncher, unable, since}
	case t.trouble.why != "":
		return Hindrance{Kind: HinderedTrouble, Why: t.trouble.why}
	case t.locked.long():
		return Hindrance{HinderedLocked, "somebody else has locked the rows that wait, since " + rfc3339(t.locked.since), t.locked.since}
	}
	if text := t.bucket.usedUp(t.Unstarted(), time.Now()); text != "" && t.wanted() {
		return Hindrance{Kind: HinderedRate, Why: text}
	}
	return Hindrance{}
}

func rfc3339(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// locked is since when claims find no row of a target that somebody else has not locked, though
// rows wait. The worker's mutex guards it.
type locked struct{ since time.Time } // zero: that is not so

// note notes that a look has found such rows, unless it failed.
func (l *locked) note(failed error, now time.Time) {
	if failed == nil && l.since.IsZero() {
		l.since = now
	}
}

// long tells whether that lasts longer than other workers' claims do.
func (l *locked) long() bool { return !l.since.IsZero() && time.Since(l.since) >= longLocked }

// Outage is what keeps a worker from all that it should do, and since when.
type Outage struct {
	Why   string
	Since time.Time
	Away  bool // the table is out of reach; else something is wrong here
}

// outage is why nothing at all is claimed; its why is "" where nothing is wrong. The worker's mutex
// guards it.
type outage struct {
	Outage
	full     bool      // the journal has no room
	returned time.Time // when the last one ended in which the table was out of reach
}

// note notes how the last try ended. It tells whether it is another outage now, or none.
func (o *outage) note(err error, now time.Time) (changed bool) {
	before := o.Outage
	if before.Away && !isAway(err) {
		o.returned = now
	}
	if o.Outage = (Outage{}); err != nil {
		o.Outage = Outage{Why: err.Error(), Since: now, Away: isAway(err)}
		if before.Why != "" && before.Away == o.Away {
			o.Since = before.Since
		}
	}
	o.full = errors.Is(err, journal.ErrFull)
	return before.Why != o.Why
}

// status is what clients are told of it.
func (o *outage) status() *Outage {
	if o.Why == "" {
		return nil
	}
	now := o.Outage
	return &now
}

const (
	// slowClaim is how long a claim may be waited for before status tells of it. A table that somebody has
	// locked gives an error after 5 s only, a server that is silent much later.
	slowClaim = 3 * time.Second
	// longLocked is how long somebody else may hold all rows before status tells of it.
	longLocked = 5 * time.Second
)

// noteAsked notes since when the database is asked for a claim; zero: it is not.
func (w *Worker) noteAsked(since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = since
}

// seen takes in how far the mirror has come, before targets are asked for their room.
func (w *Worker) seen(upTo uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.board.Seen(upTo)
	w.awaitTable()
}

// awaitTable has the claim loop look again when the table shows the ends that targets wait for with
// their claims. One goroutine waits at a time. Callers must hold w.mu.
func (w *Worker) awaitTable() {
	seq := w.board.Awaited()
	if seq == 0 || w.awaiting {
		return
	}
	w.awaiting = true
	w.others.Go(func() {
		select {
		case <-w.Mirror.Tried(seq):
		case <-w.active.Done():
			return
		}
		w.mu.Lock()
		w.awaiting = false
		w.mu.Unlock()
		w.wake()
	})
}

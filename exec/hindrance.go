package exec

import (
	"fmt"
	"time"
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
	HinderedStopping   Hindering = "stopping"   // the worker stops
	HinderedName       Hindering = "name"       // the table does not take the target's name
	HinderedDisk       Hindering = "disk"       // the journal has too little room on its disk
	HinderedDatabase   Hindering = "database"   // claims fail, for whatever target
	HinderedStuck      Hindering = "stuck"      // a claim waits for the database
	HinderedUnwritten  Hindering = "unwritten"  // the table can't be written
	HinderedIdentity   Hindering = "identity"   // the worker's name or mark is another one's
	HinderedLauncher   Hindering = "launcher"   // no job can be started
	HinderedExecutor   Hindering = "executor"   // no job of this target can be started
	HinderedRetirement Hindering = "retirement" // the target is about to be removed
	HinderedTrouble    Hindering = "trouble"    // claims for this target fail
	HinderedCrowded    Hindering = "crowded"    // too many jobs wait for their rows
	HinderedLocked     Hindering = "locked"     // somebody else holds all rows that wait
	HinderedRate       Hindering = "rate"       // as many jobs were started as its rate allows
)

// hindrance is why nothing is claimed for a target. Callers must hold w.mu.
func (w *Worker) hindrance(t *target, away bool) Hindrance {
	unable, since := t.Unable()
	switch {
	case w.board.Stopping():
		return Hindrance{Kind: HinderedStopping, Why: "the worker stops"}
	case t.unfit != "":
		return Hindrance{Kind: HinderedName, Why: t.unfit}
	case w.outage.full:
		return Hindrance{HinderedDisk, w.outage.why, w.outage.since}
	case w.outage.why != "":
		return Hindrance{HinderedDatabase, w.outage.why, w.outage.since}
	case w.asked.stuck():
		return Hindrance{HinderedStuck, "the claim has waited for the database since " + rfc3339(w.asked.since), w.asked.since}
	case away:
		return Hindrance{Kind: HinderedUnwritten, Why: "the table can't be written"}
	case w.identity.why != "":
		return Hindrance{HinderedIdentity, w.identity.why, w.identity.taken}
	case w.board.Hitch() != nil:
		return Hindrance{HinderedLauncher, w.board.Hitch().Text(), w.board.Hitch().Since()}
	case unable != "":
		return Hindrance{HinderedExecutor, unable, since}
	case t.RetiredBy() != "":
		return Hindrance{Kind: HinderedRetirement, Why: fmt.Sprintf("it is removed as soon as its jobs have ended: %d are left", t.Length())}
	case t.trouble.why != "":
		return Hindrance{Kind: HinderedTrouble, Why: t.trouble.why}
	case t.Crowded(w.Prefetch):
		return Hindrance{Kind: HinderedCrowded, Why: fmt.Sprintf("%d jobs were claimed and can't be started for now, because their rows can't be updated", t.Parked())}
	case t.locked.long():
		return Hindrance{HinderedLocked, "somebody else has locked the rows that wait, since " + rfc3339(t.locked.since), t.locked.since}
	}
	if text := t.bucket.usedUp(t.Unstarted(), time.Now()); text != "" && t.wanted() {
		return Hindrance{Kind: HinderedRate, Why: text}
	}
	return Hindrance{}
}

func rfc3339(at time.Time) string { return at.UTC().Format(time.RFC3339) }

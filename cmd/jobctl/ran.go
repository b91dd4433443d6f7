package main

import (
	"strings"
	"time"

	"jobd/journal"
)

// notKnown is printed where it can't be told how long something took. A 0 would be a claim.
const notKnown = "not known"

// unknownOutcome begins the reason of a job of which nobody saw the end: the event tells when that
// was noticed.
const unknownOutcome = "outcome unknown"

// measured is how long a job ran, by a clock that nobody sets; false where the journal does not
// hold it, as in events of older versions.
func measured(done journal.Done) (ran time.Duration, known bool) {
	return time.Duration(done.Elapsed) * time.Microsecond, done.Elapsed > 0
}

// ranFor is how long a job ran: as measured, or else the time between its events, where nothing
// speaks against that. A clock that was set back lets events bear the same time.
func ranFor(done journal.Done, running, ended time.Time) (ran time.Duration, known bool) {
	if ran, known := measured(done); known {
		return ran, true
	}
	if running.IsZero() || strings.HasPrefix(done.Reason, unknownOutcome) {
		return 0, false
	}
	ran = ended.Sub(running)
	return ran, ran > 0
}

// duration prints a duration that may not be known.
func duration(d time.Duration, known bool) string {
	if !known {
		return notKnown
	}
	return d.String()
}

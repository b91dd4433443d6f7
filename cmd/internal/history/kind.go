package history

import "jobd/journal"

// Kinds lists the kinds of event in the order in which they are documented.
func Kinds() []journal.Kind {
	return []journal.Kind{
		journal.KindAccepted, journal.KindIgnored, journal.KindReleased, journal.KindRunning, journal.KindStarted,
		journal.KindSignal, journal.KindDone, journal.KindConflict, journal.KindSetAside,
		journal.KindOpened, journal.KindClosed, journal.KindPaused, journal.KindContinued,
		journal.KindTargetAdded, journal.KindTargetRemoved, journal.KindConcurrencySet,
		journal.KindMarked, journal.KindServer,
	}
}

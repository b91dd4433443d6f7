package store

import (
	"context"
	"log/slog"

	"jobd/journal"
)

// Collapse makes changes of events, as the mirror does.
func Collapse(source Source, recur bool, events []journal.Event) (changes []Change, n int, lost []journal.Draft, err error) {
	k := newClaims(source, slog.New(slog.DiscardHandler), recur)
	changes, lost, n, err = k.collapse(context.Background(), events)
	return changes, n, lost, err
}

// What rows should say.
var (
	GiveBack = giveBack
	ChangeTo = changeTo
	ClaimOf  = payloadOf
)

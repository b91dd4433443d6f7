package store

import (
	"context"
	"log/slog"

	"jobd/journal"
)

// First is the oldest event that went into a change.
func (c Change) First() uint64 { return c.first }

// Target is the target of the change's claim.
func (c Change) Target() string { return c.target }

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

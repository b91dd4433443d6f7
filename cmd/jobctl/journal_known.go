package main

import (
	"context"
	"iter"
	"slices"
	"strings"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/net/api"
)

// known gives the events of a query, whose kinds a worker of an older version may not all know. It
// has no events of those that it does not know, so it is asked for the others.
func (r *remote) known(ctx context.Context, q history.Query) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		for {
			unknown := -1
			for e, err := range r.asked(ctx, q) {
				if unknown = unknownKind(err, q.Kinds); unknown >= 0 {
					break
				}
				if !yield(e, err) {
					return
				}
			}
			if unknown < 0 {
				return
			}
			q.Kinds = slices.Delete(slices.Clone(q.Kinds), unknown, unknown+1)
			if len(q.Kinds) == 0 { // which would ask for all of them
				return
			}
		}
	}
}

// asked gives the events of a query as the worker answers it.
func (r *remote) asked(ctx context.Context, q history.Query) iter.Seq2[history.Event, error] {
	if len(q.Special()) > 0 {
		return r.selected(ctx, q)
	}
	return stream[history.Event](ctx, r, api.JournalEvents, fieldsOf(q))
}

// unknownKind tells which of these kinds a worker refuses, because it does not know it; -1: none.
// Older ones say so by their text alone.
func unknownKind(err error, kinds []journal.Kind) int {
	if err == nil {
		return -1
	}
	return slices.IndexFunc(kinds, func(kind journal.Kind) bool {
		return strings.HasSuffix(err.Error(), "unknown kind of event '"+string(kind)+"'")
	})
}

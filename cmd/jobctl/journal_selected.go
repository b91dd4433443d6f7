package main

import (
	"context"
	"iter"
	"slices"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/net/api"
)

// selected gives the events of a query that has fields which workers of older versions pass over:
// they would answer as if it asked for less. Such a worker is asked for all that may be selected,
// and what is wanted of that is chosen here.
func (r *remote) selected(ctx context.Context, q history.Query) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		var opened api.Opened
		if err := r.ask(ctx, api.JournalEvents, fieldsOf(q), &opened); err != nil {
			yield(history.Event{}, err)
			return
		}
		special := q.Special()
		if slices.Equal(opened.Understood, special) {
			for e, err := range pages[history.Event](ctx, r, api.JournalEvents, opened.Cursor) {
				if !yield(e, err) {
					return
				}
			}
			return
		}
		r.forget(ctx, opened.Cursor)
		for e, err := range chosen(q, stream[history.Event](ctx, r, api.JournalEvents, fieldsOf(wider(q)))) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// forget ends a stream that nobody wants.
func (r *remote) forget(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	var closed any
	_ = r.ask(ctx, api.JournalClose, map[string]any{"cursor": id}, &closed) // the worker drops it anyway, later
}

// wider is a query, in the words of older versions, that selects at least as much. The newest few of
// what it selects are not the newest few of what is wanted.
func wider(q history.Query) history.Query {
	if q.Result != "" && len(q.Kinds) == 0 {
		q.Kinds = []journal.Kind{journal.KindDone}
	}
	q.Output = q.Output || q.LastLine
	if q.Result != "" || q.AskedBy != "" {
		q.Last = 0
	}
	q.Result, q.AskedBy, q.LastLine = "", "", false
	return q
}

// chosen chooses what is wanted of events that may be more.
func chosen(q history.Query, events iter.Seq2[history.Event, error]) iter.Seq2[history.Event, error] {
	wanted := func(yield func(history.Event, error) bool) {
		for e, err := range events {
			if err == nil && !q.Selects(e.Event) {
				continue
			}
			if q.LastLine && err == nil {
				e.Event = history.WithLastLine(e.Event)
			}
			if !yield(e, err) {
				return
			}
		}
	}
	if q.Last > 0 && !q.Follow {
		return history.Newest(wanted, q.Last)
	}
	return wanted
}

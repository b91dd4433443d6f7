package storetest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"jobd/journal"
)

// History is a journal in memory, for what only reads one. Its methods are safe for concurrent use.
type History struct {
	mu      sync.Mutex
	events  []journal.Event
	Removed *journal.RemovedError // what retention has removed; nil: nothing
}

// Add appends an event that happened at a time, and gives its number.
func (h *History) Add(job int64, at time.Time, payload journal.Payload) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq := uint64(len(h.events) + 1)
	h.events = append(h.events, journal.Event{Seq: seq, Time: at, Job: job, Payload: payload})
	return seq
}

func (h *History) all() []journal.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events
}

// Events gives the events that a filter selects by number, job, kinds and count.
func (h *History) Events(_ context.Context, f journal.Filter) iter.Seq2[journal.Event, error] {
	var selected []journal.Event
	for _, e := range h.all() {
		if e.Seq > f.After && (f.Job == 0 || e.Job == f.Job) && (len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind())) {
			selected = append(selected, e)
		}
	}
	if f.Last > 0 {
		selected = selected[max(0, len(selected)-f.Last):]
	}
	return func(yield func(journal.Event, error) bool) {
		for _, e := range selected {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Jobs gives every job as it stands now, by id.
func (h *History) Jobs(context.Context, time.Time) iter.Seq2[journal.Job, error] {
	return func(yield func(journal.Job, error) bool) {
		state := journal.State{KeepEnded: true}
		for _, e := range h.all() {
			if err := state.Apply(e); err != nil {
				yield(journal.Job{}, err)
				return
			}
		}
		for _, id := range slices.Sorted(maps.Keys(state.Jobs)) {
			if !yield(*state.Jobs[id], nil) {
				return
			}
		}
	}
}

// First is the number of the first event.
func (h *History) First(context.Context) (uint64, error) { return 1, nil }

// Newest is the number of the newest event.
func (h *History) Newest(context.Context) (uint64, error) { return uint64(len(h.all())), nil }

// Anchor is the newest event's number; nothing here has a hash.
func (h *History) Anchor(context.Context) (journal.Anchor, error) {
	return journal.Anchor{Seq: uint64(len(h.all()))}, nil
}

// Kept says what retention has removed.
func (h *History) Kept(context.Context) (*journal.RemovedError, error) { return h.Removed, nil }

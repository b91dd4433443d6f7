package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"jobd/store"
)

// applier is a table that notes what it is given.
type applier struct {
	store.Applier // nil: what a test does not need is not there

	mu      sync.Mutex
	batches [][]store.Change
	errs    []error // the first calls fail with these
	hold    chan struct{}
	fate    map[int64]store.Outcome
	applied chan struct{} // receives after each batch that was taken
}

func newApplier() *applier {
	return &applier{fate: make(map[int64]store.Outcome), applied: make(chan struct{}, 1000)}
}

func (a *applier) Apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hold != nil {
		select {
		case <-a.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if len(a.errs) > 0 {
		err := a.errs[0]
		a.errs = a.errs[1:]
		return nil, err
	}
	a.batches = append(a.batches, changes)
	outcomes := make([]store.Outcome, len(changes))
	for i, c := range changes {
		outcomes[i] = a.fate[c.Job]
	}
	a.applied <- struct{}{}
	return outcomes, nil
}

// Server implements store.Applier: it does not tell servers apart.
func (a *applier) Server(context.Context) (string, error) { return "", nil }

// Confirm implements store.Applier.
func (a *applier) Confirm(string) {}

// Look implements store.Applier: there are no rows.
func (a *applier) Look(context.Context, []int64) (map[int64]*store.Seen, error) { return nil, nil }

// away is an error that says that the table is out of reach.
func away(text string) error { return &store.Unreachable{Op: "apply", Err: errors.New(text)} }

// set sets what becomes of a job's changes from now on.
func (a *applier) set(job int64, o store.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fate[job] = o
}

// last gives the last n changes that were applied, in words.
func (a *applier) last(n int) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var words []string
	for _, batch := range a.batches {
		for _, c := range batch {
			words = append(words, fmt.Sprintf("%d %s %s", c.Job, c.Status, c.Token))
		}
	}
	return words[max(0, len(words)-n):]
}

// words puts what was applied into words: "job status token" a change, ";" between batches.
func (a *applier) words() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var batches []string
	for _, batch := range a.batches {
		var changes []string
		for _, c := range batch {
			changes = append(changes, fmt.Sprintf("%d %s %s", c.Job, c.Status, c.Token))
		}
		batches = append(batches, strings.Join(changes, ", "))
	}
	return strings.Join(batches, "; ")
}

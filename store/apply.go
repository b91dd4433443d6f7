package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// errServerUnknown says that the table may be on another server by now, so that what it answered
// counts for nothing.
var errServerUnknown = errors.New("the server is to be compared with the journal first")

// apply has changes applied, waiting while the whole table is out of reach, and only then. An error
// that is not about the whole table is some row's: after a second try the changes are divided until
// it is known whose.
func (m *Mirror) apply(ctx context.Context, changes []Change) ([]Outcome, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	for {
		outcomes, err := divided(ctx, changes, m.attempt, true)
		if !errors.Is(err, errServerUnknown) {
			return outcomes, err
		}
		if err := m.confirmServer(ctx); err != nil {
			return nil, err
		}
	}
}

// againAfter is about how long a transaction that failed is let alone before the second try.
const againAfter = 10 * time.Millisecond

// applying is a way to have changes applied.
type applying func(ctx context.Context, changes []Change) ([]Outcome, error)

// divided applies changes together, or, where that fails, by halves. A single one that fails is
// held.
func divided(ctx context.Context, changes []Change, try applying, again bool) ([]Outcome, error) {
	outcomes, err := try(ctx, changes)
	if again && failedForARow(ctx, err) {
		select {
		case <-time.After(rand.N(againAfter)):
		case <-ctx.Done():
		}
		outcomes, err = try(ctx, changes)
	}
	switch {
	case !failedForARow(ctx, err):
		return outcomes, err
	case len(changes) == 1:
		return []Outcome{{Fate: Held, Note: err.Error()}}, nil
	}
	half := len(changes) / 2
	former, err := divided(ctx, changes[:half], try, false)
	if err != nil {
		return nil, err
	}
	latter, err := divided(ctx, changes[half:], try, false)
	return append(former[:len(former):len(former)], latter...), err
}

// failedForARow tells whether an error of Apply is about some of the rows.
func failedForARow(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && !errors.Is(err, errServerUnknown) && !IsAway(err)
}

// attempt applies changes once the table can be reached.
func (m *Mirror) attempt(ctx context.Context, changes []Change) ([]Outcome, error) {
	var outcomes []Outcome
	err := m.reaching(ctx, "mirror to the table", func() (err error) {
		outcomes, err = m.Table.Apply(ctx, changes)
		if m.isDue() {
			return errServerUnknown
		}
		return err
	})
	return outcomes, err
}

// reaching does something again until the table is not away. The error is what it failed with
// otherwise, or ctx's.
func (m *Mirror) reaching(ctx context.Context, what string, do func() error) error {
	var retry *Retry
	for {
		err := do()
		switch {
		case errors.Is(err, errServerUnknown):
			return err
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case !IsAway(err):
			m.setAway(nil)
			if retry != nil {
				retry.Over()
			}
			return err
		}
		m.setAway(err)
		if retry == nil {
			retry = NewRetry(m.Logger, what)
		}
		if err := retry.Wait(ctx, err); err != nil {
			return err
		}
	}
}

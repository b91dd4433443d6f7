package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"jobd/journal"
)

// NewMirror makes a mirror. Run makes it work.
func NewMirror(c Config) *Mirror {
	var former uint64
	c.Source.View(func(s *journal.State) {
		former = s.Seq
		if c.Server == "" {
			c.Server = s.Server
		}
	})
	return &Mirror{
		Config: c, progress: newProgress(c.Bookmark), outage: &outage{onReturn: c.OnReturn, away: make(chan struct{})},
		former: former, serverCheck: serverCheck{due: true}, claims: newClaims(c.Source, c.Logger, c.Replan != nil),
	}
}

// restAfter is how long the journal must be quiet before the position is written for its own sake.
const restAfter = time.Second

// Run mirrors until ctx ends or the journal fails.
func (m *Mirror) Run(ctx context.Context) error {
	m.lively = time.Now()
	for {
		if err := m.step(ctx); err != nil {
			return ended(ctx, err)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// step does what is to be done next: new events first, then what is aside and due, in one
// transaction each.
func (m *Mirror) step(ctx context.Context) error {
	if err := m.confirmServer(ctx); err != nil {
		return err
	}
	events, err := m.next(ctx)
	if err == nil {
		err = m.mirror(ctx, events)
	}
	if err == nil {
		err = m.retryAside(ctx)
	}
	return err
}

// ended is nil where an error only says that ctx ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}

// next gives the next events, or none when something else is to be done first: a change that is
// aside is due, or the server is to be asked for. When nothing happens for a while it writes the
// position. Where there is no room for that the next rest does it, and a crash before only means to
// apply some changes once more.
func (m *Mirror) next(ctx context.Context) ([]journal.Event, error) {
	if !m.aside.full() {
		if after := m.triedUpTo(); m.newest() > after {
			return m.Source.Next(ctx, after, batchSize)
		}
	}
	wait, resting := m.pause()
	if wait <= 0 && !resting {
		return nil, nil
	}
	quiet, cancel := bounded(ctx, wait)
	defer cancel()
	if !m.interruptible(cancel) {
		return nil, nil
	}
	defer m.interruptible(nil)
	events, err := m.await(quiet)
	if err == nil || quiet.Err() == nil || ctx.Err() != nil {
		return events, err
	}
	if resting && time.Since(m.lively) >= restAfter {
		m.rested = true
		if err := m.Bookmark.Rest(); err != nil && !errors.Is(err, journal.ErrFull) {
			return nil, err
		}
	}
	return nil, nil
}

// await waits for events, or, where too much is aside, only until ctx ends.
func (m *Mirror) await(ctx context.Context) ([]journal.Event, error) {
	if m.aside.full() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return m.Source.Next(ctx, m.triedUpTo(), batchSize)
}

// bounded is ctx for a while; for good where the while is that of nothing to do.
func bounded(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if wait == forGood {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, wait)
}

// forGood is a pause that only an event ends.
const forGood = time.Duration(1<<63 - 1)

// pause is for how long there is nothing to do without new events, and whether that is because of
// the rest.
func (m *Mirror) pause() (wait time.Duration, resting bool) {
	wait = forGood
	if !m.rested {
		wait, resting = max(0, restAfter-time.Since(m.lively)), true
	}
	if next := m.aside.nextDue; !next.IsZero() {
		if due := max(0, time.Until(next)); due < wait {
			return due, false
		}
	}
	return wait, resting
}

// newest is the newest event of the journal.
func (m *Mirror) newest() (seq uint64) {
	m.Source.View(func(s *journal.State) { seq = s.Seq })
	return seq
}

// mirror brings the table up to date with events, which follow what was tried.
func (m *Mirror) mirror(ctx context.Context, events []journal.Event) error {
	for len(events) > 0 {
		m.lively, m.rested = time.Now(), false
		changes, n, err := m.claims.collapse(ctx, events)
		if err != nil {
			return err
		}
		m.aside.recallFrom(events[:n])
		var fresh, behind []Change
		m.works(func() { fresh, behind = m.parted(changes) })
		outcomes, err := m.apply(ctx, fresh)
		if err == nil {
			err = m.replan(ctx, fresh, outcomes, m.apply)
		}
		if err != nil {
			return err
		}
		if err := m.conclude(ctx, trial{
			changes: fresh, outcomes: outcomes, behind: behind, upTo: events[n-1].Seq,
		}); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// works tells the pulse of a piece of work.
func (m *Mirror) works(work func()) {
	if m.Pulse != nil {
		m.Pulse.Works()
		defer m.Pulse.Waits()
	}
	work()
}

// parted parts changes into those that can be applied and those that have to wait behind one that
// is aside.
func (m *Mirror) parted(changes []Change) (fresh, behind []Change) {
	if len(m.aside.rows) == 0 {
		return changes, nil
	}
	for _, c := range changes {
		if m.aside.rows[c.Job] == nil {
			fresh = append(fresh, c)
		} else {
			behind = append(behind, c)
		}
	}
	return fresh, behind
}

// retryAside tries what is aside and due, in one transaction. Where that fails for one of the rows,
// the next turn tries half as many, so that new events wait for one transaction only.
func (m *Mirror) retryAside(ctx context.Context) error {
	changes := m.asideDue(time.Now())
	if len(changes) == 0 {
		return nil
	}
	m.lively, m.rested = time.Now(), false
	outcomes, err := m.attempt(ctx, changes)
	switch {
	case errors.Is(err, errServerUnknown):
		return nil // the next step asks for the server
	case failedForARow(ctx, err) && len(changes) > 1:
		m.aside.share = len(changes) / 2
		return nil
	case failedForARow(ctx, err):
		outcomes = []Outcome{{Fate: Held, Note: err.Error()}}
	case err != nil:
		return err
	}
	if !slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.Fate == Refused }) {
		m.aside.share = min(2*m.aside.share, batchSize)
	}
	again := func(ctx context.Context, changes []Change) ([]Outcome, error) {
		return divided(ctx, changes, m.attempt, true)
	}
	if err := m.replan(ctx, changes, outcomes, again); err != nil {
		if errors.Is(err, errServerUnknown) {
			return nil // likewise
		}
		return err
	}
	return m.conclude(ctx, trial{changes: changes, outcomes: outcomes})
}

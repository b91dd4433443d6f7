package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"jobd/journal"
)

// Source is the journal as the mirror needs it.
type Source interface {
	// Next gives the events after seq, at most limit, waiting until there is one.
	Next(ctx context.Context, after uint64, limit int) ([]journal.Event, error)
	// Claim gives the newest accepted event of a job before seq.
	Claim(ctx context.Context, job int64, seq uint64) (journal.Accepted, error)
	// Append makes a conflict part of the journal.
	Append(drafts ...journal.Draft) ([]journal.Event, error)
}

// Bookmark remembers up to where the table shows the journal. Noting is cheap; what
// was only noted is on disk after Rest.
type Bookmark interface {
	Position() uint64
	SetPosition(seq uint64)
	Rest() error
}

// Applier is the part of a Table that the mirror uses.
type Applier interface {
	Apply(ctx context.Context, changes []Change) ([]Outcome, error)
}

// Config says what a mirror connects.
type Config struct {
	Source   Source
	Bookmark Bookmark
	Table    Applier
	Logger   *slog.Logger
	OnReturn func() // called when the table is reached again after an outage; must not block
}

// Mirror follows the journal in order and brings the table up to date. It
// gives up on no event and is held up by no single row; while the table cannot be reached it
// waits, and the journal holds what is owed.
type Mirror struct {
	Config
	claims map[int64]claim // of jobs under way; a cache of the journal

	mu       sync.Mutex
	applied  uint64 // all events up to here are in the table
	watchers []watcher
	away     chan struct{} // closed while the table cannot be reached
	isAway   bool
}

// claim is what a change needs to know of the job's claim.
type claim struct {
	token  string
	manual bool
}

// NewMirror makes a mirror. Run makes it work.
func NewMirror(c Config) *Mirror {
	return &Mirror{
		Config: c, applied: c.Bookmark.Position(),
		claims: make(map[int64]claim), away: make(chan struct{}),
	}
}

// batchSize is how many events go into one transaction at most.
const batchSize = 512

// restAfter is how long the journal must be quiet before the position is written for its own sake.
const restAfter = time.Second

// Run mirrors until ctx ends or the journal fails.
func (m *Mirror) Run(ctx context.Context) error {
	for {
		events, err := m.next(ctx)
		if err != nil {
			return ended(ctx, err)
		}
		if err := m.mirror(ctx, events); err != nil {
			return ended(ctx, err)
		}
	}
}

// ended is nil where an error only says that ctx ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}

// next waits for events; when none come for a while it writes the position. Where there is
// no room for that the next rest does it, and a crash before only means to apply some changes once more.
func (m *Mirror) next(ctx context.Context) ([]journal.Event, error) {
	quiet, cancel := context.WithTimeout(ctx, restAfter)
	defer cancel()
	events, err := m.Source.Next(quiet, m.Applied(), batchSize)
	if err == nil || quiet.Err() == nil || ctx.Err() != nil {
		return events, err
	}
	if err := m.Bookmark.Rest(); err != nil && !errors.Is(err, journal.ErrFull) {
		return nil, err
	}
	return m.Source.Next(ctx, m.Applied(), batchSize)
}

// mirror brings the table up to date with events, which follow what was applied.
func (m *Mirror) mirror(ctx context.Context, events []journal.Event) error {
	for len(events) > 0 {
		changes, n, err := m.collapse(ctx, events)
		if err != nil {
			return err
		}
		outcomes, err := m.apply(ctx, changes)
		if err != nil {
			return err
		}
		if err := m.settle(ctx, changes, outcomes, events[n-1].Seq); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// apply tries until the table took the changes, or ctx ends.
func (m *Mirror) apply(ctx context.Context, changes []Change) ([]Outcome, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	retry := NewRetry(m.Logger, "mirror to the table")
	for {
		outcomes, err := m.Table.Apply(ctx, changes)
		if err == nil {
			m.setAway(false)
			return outcomes, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		m.setAway(true)
		if err := retry.Wait(ctx, err); err != nil {
			return nil, err
		}
	}
}

// settle journals what the table would not take, notes the position and tells who waits.
// Dying before the position is on disk only means to apply the changes once more.
func (m *Mirror) settle(ctx context.Context, changes []Change, outcomes []Outcome, seq uint64) error {
	var conflicts []journal.Draft
	for i, outcome := range outcomes {
		if outcome.Note != "" {
			m.Logger.Warn("the table took an update in reduced form or not at all", "job", changes[i].Job, "reason", outcome.Note)
		}
		if outcome.Fate == Applied {
			continue
		}
		superseded, err := m.superseded(ctx, changes[i])
		if err != nil {
			return err
		}
		if !superseded {
			conflicts = append(conflicts, conflict(changes[i], outcome))
		}
	}
	if err := m.record(ctx, conflicts); err != nil {
		return err
	}
	m.Bookmark.SetPosition(seq)
	m.advance(seq)
	return nil
}

// superseded tells whether the job was claimed again since. A change can be applied a second time after its
// COMMIT was not answered, and meet the row as somebody reset it and this worker claimed it anew: that is no
// conflict, and must not end the new claim.
func (m *Mirror) superseded(ctx context.Context, c Change) (bool, error) {
	newest, err := m.Source.Claim(ctx, c.Job, math.MaxInt64)
	if err != nil {
		return false, fmt.Errorf("newest claim of job %d: %w", c.Job, err)
	}
	return newest.Token != c.Token, nil
}

// record journals conflicts; a full disk is waited out.
func (m *Mirror) record(ctx context.Context, conflicts []journal.Draft) error {
	if len(conflicts) == 0 {
		return nil
	}
	_, err := m.Source.Append(conflicts...)
	for retry := NewRetry(m.Logger, "journal conflicts"); errors.Is(err, journal.ErrFull); {
		if waitErr := retry.Wait(ctx, err); waitErr != nil {
			return waitErr
		}
		_, err = m.Source.Append(conflicts...)
	}
	if err != nil {
		return fmt.Errorf("journal conflicts: %w", err)
	}
	return nil
}

// conflict is the event for a row that is no longer as the worker left it.
func conflict(c Change, o Outcome) journal.Draft {
	payload := journal.Conflict{Found: o.Found, Wanted: c.Status}
	if o.Fate == Refused {
		payload.Reason = o.Note
	}
	return journal.Draft{Job: c.Job, Payload: payload}
}

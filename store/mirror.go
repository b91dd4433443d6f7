package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"jobd/journal"
)

// Source is the journal as the mirror needs it.
type Source interface {
	// Next gives the events after seq, at most limit, waiting until there is one.
	Next(ctx context.Context, after uint64, limit int) ([]journal.Event, error)
	// Claim gives the newest accepted event of a job before seq; journal.ErrNoClaim is among the
	// causes of its error where the history has none.
	Claim(ctx context.Context, job int64, seq uint64) (journal.Accepted, error)
	// Back gives the number after which to read to see again what happened up to an age before
	// event seq.
	Back(ctx context.Context, seq uint64, age time.Duration, limit uint64) (after uint64, err error)
	// View shows the state after everything appended so far.
	View(look func(*journal.State))
	// Append makes the mirror's own events part of the journal.
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
	Looker
	Apply(ctx context.Context, changes []Change) ([]Outcome, error)
	ClaimManual(ctx context.Context, ids []int64, targets []string, decide Decide) (locked []int64, err error)
	Server(ctx context.Context) (id string, err error)
	Confirm(id string)
}

// Config says what a mirror connects.
type Config struct {
	Source   Source
	Bookmark Bookmark
	Table    Applier
	Logger   *slog.Logger

	// Server is the server that the table was last found on, according to the journal; "" where
	// that is not known.
	Server string

	// Together is how long claims wait on another server at least, counted from when it was met. Other workers of
	// the table compare their rows in that time: one that claimed before might take a row that another has
	// run and not mended yet.
	Together time.Duration

	// OnReturn is called when claims can succeed again: the table is reached after an outage, or
	// its server was confirmed. It must not block.
	OnReturn func()

	// OnGivenBack is called with the targets of rows that read waiting again by the mirror's work,
	// before anybody who waits for that is told. It must not block.
	OnGivenBack func(targets []string)
}

// Mirror follows the journal in order and brings the table up to date. It
// gives up on no event and is held up by no single row; while the table cannot be reached it
// waits, and the journal holds what is owed.
type Mirror struct {
	Config
	claims    map[int64]claim  // of jobs under way; a cache of the journal
	lost      []journal.Draft  // conflicts of changes whose claim nobody knows, to be journalled
	formerly  map[int64]former // rows that were set aside before, by the events of one turn
	lively    time.Time        // when something was mirrored last
	rested    bool             // the bookmark is on disk since
	confirmed bool             // claims are let on the server that the table is on
	back      *comparison      // of another server with the journal; nil while there is none under way
	share     int              // how many changes that were set aside are tried together

	mu        sync.Mutex
	tried     uint64 // all events up to here are in the table, set aside or in conflict
	aside     map[int64]*aside
	load      load          // of what is aside
	oldest    uint64        // the oldest event of it; forEver where nothing is
	nextDue   time.Time     // when the first of these is to be tried; zero: none
	waiting   watchers      // for events that were not tried yet
	waitAll   watchers      // for changes of any job that are aside
	away      chan struct{} // closed while the table cannot be reached
	isAway    bool
	unchecked bool   // the table may be on another server than the journal says
	interrupt func() // ends the waiting for events; nil while there is none
}

// NewMirror makes a mirror. Run makes it work.
func NewMirror(c Config) *Mirror {
	m := &Mirror{
		Config: c, tried: c.Bookmark.Position(), share: batchSize, unchecked: true,
		claims: make(map[int64]claim), formerly: make(map[int64]former),
		aside: make(map[int64]*aside), oldest: forEver, away: make(chan struct{}),
	}
	m.remember()
	return m
}

// batchSize is how many events go into one transaction at most.
const batchSize = 512

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
	if err := m.meetServer(ctx); err != nil {
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
	if !m.full() {
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
	if m.full() {
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
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.nextDue.IsZero() {
		if due := max(0, time.Until(m.nextDue)); due < wait {
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
		changes, n, err := m.collapse(ctx, events)
		if err != nil {
			return err
		}
		fresh, behind := m.parted(changes)
		outcomes, err := m.apply(ctx, fresh)
		if err != nil {
			return err
		}
		if err := m.settle(ctx, settling{
			changes: fresh, outcomes: outcomes, behind: behind, upTo: events[n-1].Seq,
		}); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// parted parts changes into those that can be applied and those that have to wait behind one that
// is aside.
func (m *Mirror) parted(changes []Change) (fresh, behind []Change) {
	if len(m.aside) == 0 {
		return changes, nil
	}
	for _, c := range changes {
		if m.aside[c.Job] == nil {
			fresh = append(fresh, c)
		} else {
			behind = append(behind, c)
		}
	}
	return fresh, behind
}

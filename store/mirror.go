package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"jobd/journal"
)

// Config says what a mirror connects.
type Config struct {
	Source   Source
	Bookmark Bookmark
	Table    Applier
	Logger   *slog.Logger

	// Server is the server that the table was last found on, according to the journal; "" where
	// that is not known.
	Server string

	// Together is how long claims wait on another server at least, counted from when it was met.
	// Other workers of the table compare their rows in that time: one that claimed before might
	// take a row that another has run and not mended yet.
	Together time.Duration

	// OnReturn is called when claims can succeed again: the table is reached after an outage, or
	// its server was confirmed. It must not block.
	OnReturn func()

	// OnGivenBack is called with the targets of rows that the mirror has set to waiting again, or to
	// delayed later than was expected. The watchers of these changes are told after the call. It must
	// not block.
	OnGivenBack func(targets []string)

	// Replan says what follows the end of a run whose row has another schedule by now than its
	// claim had. It is asked where rows may recur.
	Replan func(done journal.Done, claim journal.Accepted, found journal.Plan) journal.Replanned

	// Pulse is told how the mirror goes; nil: nobody is.
	Pulse Pulse
}

// Mirror follows the journal in order and brings the table up to date. It
// gives up on no event and is held up by no single row; while the table cannot be reached it
// waits, and the journal holds what is owed.
type Mirror struct {
	Config
	*progress
	*outage
	serverCheck
	claims    *claims
	former    uint64      // the newest event that is a former process's
	lively    time.Time   // when something was mirrored last
	rested    bool        // the bookmark was put on disk after lively
	confirmed bool        // claims are let on the server that the table is on
	back      *comparison // of another server with the journal; nil while there is none under way
}

// NewMirror makes a mirror. Run makes it work.
func NewMirror(c Config) *Mirror {
	var former uint64
	c.Source.View(func(s *journal.State) {
		former = s.Seq
		if c.Server == "" {
			c.Server = s.Server
		}
	})
	m := &Mirror{
		Config: c, outage: &outage{onReturn: c.OnReturn, away: make(chan struct{})},
		progress: &progress{
			bookmark: c.Bookmark, tried: c.Bookmark.Position(),
			quarantine: backlog{rows: make(map[int64]*owedRow), oldest: forEver},
		},
		former: former, claims: newClaims(c.Source, c.Logger, c.Replan != nil),
	}
	m.begun()
	m.CheckServer()
	return m
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

// step mirrors new events first, then tries the quarantined changes that are due, in one transaction
// each.
func (m *Mirror) step(ctx context.Context) error {
	if err := m.confirmServer(ctx); err != nil {
		return err
	}
	events, err := m.next(ctx)
	if err == nil {
		err = m.mirror(ctx, events)
	}
	if err == nil {
		err = m.retryQuarantined(ctx)
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

// next gives the next events, or none when something else comes first: a quarantined change is due, or
// the mirror must ask which server this is. When nothing happens for a while it writes the
// position. Where there is no room for that the next rest does it, and a crash before only means to
// apply some changes once more.
func (m *Mirror) next(ctx context.Context) ([]journal.Event, error) {
	full, after := m.quarantine.full(), m.Reached()
	if !full && m.newest() > after {
		return m.Source.Next(ctx, after, batchSize)
	}
	if !m.rested && time.Since(m.lively) >= restAfter {
		m.rested = true
		if err := m.Bookmark.Rest(); err != nil && !errors.Is(err, journal.ErrFull) {
			return nil, err
		}
	}
	quiet, cancel := context.WithTimeout(ctx, m.pause())
	defer cancel()
	defer context.AfterFunc(m.asked(), cancel)()
	if full {
		<-quiet.Done()
		return nil, ctx.Err()
	}
	events, err := m.Source.Next(quiet, after, batchSize)
	if quiet.Err() != nil && ctx.Err() == nil {
		return events, nil
	}
	return events, err
}

// idle is how long the mirror waits for an event when there is nothing else to do: for long.
const idle = time.Hour

// pause is for how long there is nothing to do without new events.
func (m *Mirror) pause() time.Duration {
	wait := idle
	if !m.rested {
		wait = restAfter - time.Since(m.lively)
	}
	if next := m.quarantine.nextDue; !next.IsZero() {
		wait = min(wait, time.Until(next))
	}
	return wait
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
		changes, lost, n, err := m.claims.collapse(ctx, events)
		if err != nil {
			return err
		}
		var fresh, behind []Change
		m.works(func() { fresh, behind = m.parted(changes) })
		outcomes, err := m.apply(ctx, fresh)
		if err != nil {
			return err
		}
		if err := m.conclude(ctx, trial{
			changes: fresh, outcomes: outcomes, behind: behind, upTo: events[n-1].Seq, conflicts: lost,
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

// parted parts changes into those that can be applied and those that have to wait behind a
// quarantined one.
func (m *Mirror) parted(changes []Change) (fresh, behind []Change) {
	if len(m.quarantine.rows) == 0 {
		return changes, nil
	}
	for _, c := range changes {
		if m.quarantine.rows[c.Job] == nil {
			fresh = append(fresh, c)
		} else {
			behind = append(behind, c)
		}
	}
	return fresh, behind
}

// retryQuarantined tries the quarantined changes that are due.
func (m *Mirror) retryQuarantined(ctx context.Context) error {
	changes := m.quarantinedDue(time.Now())
	if len(changes) == 0 {
		return nil
	}
	m.lively, m.rested = time.Now(), false
	outcomes, err := m.apply(ctx, changes)
	if err != nil {
		return err
	}
	return m.conclude(ctx, trial{changes: changes, outcomes: outcomes})
}

// outage tells whether the table can be reached. Its methods are safe for concurrent use.
type outage struct {
	onReturn func() // is called when it can again; nil: nobody cares

	mu    sync.Mutex
	away  chan struct{} // closed while it cannot
	why   error         // nil while it can
	since time.Time     // of the last change; zero: there was none
	ended uint64        // outages that are over
}

// Away gives a channel that is closed as long as the table cannot be reached.
func (o *outage) Away() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.away
}

// Reachable tells whether the mirror reaches the table, by its last try: why is nil where it does.
// since is when that changed last; zero: it never did.
func (o *outage) Reachable() (since time.Time, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.since, o.why
}

// Outages counts how often the table could be reached again.
func (o *outage) Outages() (ended uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

// setAway notes why the table can't be reached, nil where it can, and tells whether it can again.
func (o *outage) setAway(why error) (returned bool) {
	o.mu.Lock()
	changed := (o.why == nil) != (why == nil)
	o.why = why
	if changed {
		o.since = time.Now()
	}
	if changed && why != nil {
		close(o.away)
	} else if changed {
		o.ended++
		o.away = make(chan struct{})
	}
	o.mu.Unlock()
	returned = changed && why == nil
	if returned && o.onReturn != nil {
		o.onReturn()
	}
	return returned
}

// Source is the journal as the mirror needs it.
type Source interface {
	// Next gives the events after seq, at most limit, waiting until there is one.
	Next(ctx context.Context, after uint64, limit int) ([]journal.Event, error)
	// Claim gives the newest accepted event of a job before seq; journal.ErrNoClaim is among the
	// causes of its error where the history has none.
	Claim(ctx context.Context, job int64, seq uint64) (journal.Accepted, error)
	// Retried tells whether a job's row was set back after event seq.
	Retried(ctx context.Context, job int64, seq uint64) (bool, error)
	// Back gives the number of an event. Next gives the events after it: those that happened at most
	// age before event seq, of these the last limit, and all later ones.
	Back(ctx context.Context, seq uint64, age time.Duration, limit uint64) (after uint64, err error)
	// View shows the state after everything appended so far.
	View(look func(*journal.State))
	// Append makes the mirror's own events part of the journal.
	Append(drafts ...journal.Draft) ([]journal.Event, error)
}

// Pulse hears that the mirror does a piece of work that only memory is needed for, and that it waits:
// for events, or for anything outside. The methods must not block.
type Pulse interface {
	Works()
	Waits()
}

// Bookmark remembers up to where the table shows the journal. Noting is cheap; what
// was only noted is on disk after Rest.
type Bookmark interface {
	Position() uint64
	SetPosition(seq uint64)
	Rest() error
}

// Changer is the part of a Table that looks at rows and brings them to what a journal says.
type Changer interface {
	looker
	Apply(ctx context.Context, changes []Change) ([]Outcome, error)
	ClaimManual(ctx context.Context, ids []int64, targets []string, decide Decide) (locked []int64, err error)
}

// Applier is the part of a Table that the mirror uses.
type Applier interface {
	Changer
	Server(ctx context.Context) (id string, err error)
	Confirm(id string)
}

package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"jobd/journal"
)

// Config says what a mirror connects.
type Config struct {
	Source   Source
	Bookmark Bookmark
	Table    Applier
	Logger   *slog.Logger

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
	server    string      // that the table was last found on; "": not known
	confirmed bool        // claims are let on the server that the table is on
	back      *comparison // of another server with the journal; nil while there is none under way
}

// NewMirror makes a mirror. Run makes it work.
func NewMirror(c Config) *Mirror {
	m := &Mirror{
		Config: c, outage: &outage{onReturn: c.OnReturn, away: make(chan struct{})},
		progress: &progress{
			bookmark: c.Bookmark, tried: c.Bookmark.Position(),
			quarantine: backlog{rows: make(map[int64]*owedRow), oldest: forEver},
		},
		claims: newClaims(c.Source, c.Logger, c.Replan != nil),
	}
	c.Source.View(func(s *journal.State) { m.former, m.server = s.Seq, s.Server })
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

// apply has changes applied. If the row of an ended run has another schedule by now, apply plans anew
// what follows the run, and has that applied.
func (m *Mirror) apply(ctx context.Context, changes []Change) ([]Outcome, error) {
	outcomes, err := m.send(ctx, changes)
	if err == nil {
		err = m.replan(ctx, changes, outcomes)
	}
	return outcomes, err
}

// send has changes applied, waiting while the table fails. What is wrong with a row is its outcome. Where
// the table may be on another server by now, what it answered counts for nothing.
func (m *Mirror) send(ctx context.Context, changes []Change) ([]Outcome, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	retry := NewRetry(m.Logger, "mirror to the table")
	for {
		outcomes, err := m.Table.Apply(ctx, changes)
		switch {
		case m.isDue():
			if err := m.confirmServer(ctx); err != nil {
				return nil, err
			}
			continue
		case err == nil:
			m.setAway(nil)
			retry.Over()
			return outcomes, nil
		case IsAway(err) && ctx.Err() == nil:
			m.setAway(err)
		}
		if err := retry.Wait(ctx, err); err != nil {
			return nil, err
		}
	}
}

// conclude journals what the table would not take, and then changes memory: the quarantine, the
// position, and who waits for it. Dying before the position is on disk only means to apply the
// changes once more.
func (m *Mirror) conclude(ctx context.Context, t trial) error {
	for i, c := range t.changes {
		if err := m.judgeOutcome(ctx, &t, c, &t.outcomes[i]); err != nil {
			return err
		}
	}
	if err := m.append(ctx, t.conflicts); err != nil {
		return err
	}
	if len(t.notices) > 0 { // they are for people only: where there is no room, they are left out
		if _, err := m.Source.Append(t.notices...); err != nil && !errors.Is(err, journal.ErrFull) {
			return fmt.Errorf("journal what the mirror found: %w", err)
		}
	}
	m.tellGivenBack(t.gaveBack)
	m.works(func() { m.progress.conclude(t) })
	return nil
}

// tellGivenBack tells the targets of rows that wait again.
func (m *Mirror) tellGivenBack(targets []string) {
	if len(targets) > 0 && m.OnGivenBack != nil {
		slices.Sort(targets)
		m.OnGivenBack(slices.Compact(targets))
	}
}

// judgeOutcome says what follows from a change's outcome. It makes a change Lost that the mirror
// gives up.
func (m *Mirror) judgeOutcome(ctx context.Context, t *trial, c Change, o *Outcome) error {
	if o.Fate == Applied {
		if o.Note != "" {
			m.Logger.Warn("the table took an update only in reduced form", "job", c.Job, "reason", o.Note)
		}
		// It may come back later than the process that ended its run expects: the row was quarantined, or a
		// former process ended the run. Workers look for such a row at the second in which it is due, which may
		// be over by now.
		late := t.upTo == 0 || c.first <= m.former
		waits := c.Status == journal.RowWaiting || c.Status == journal.RowDelayed && (c.Done == nil || late)
		if c.target != "" && waits {
			t.gaveBack = append(t.gaveBack, c.target)
		}
		return nil
	}
	if o.Fate == Refused && m.quarantine.tooLong(c.Job) {
		m.Logger.Error("a row was refused for too long, and is left as found", "job", c.Job, "reason", o.Note)
		o.Fate = Lost
		if o.Found == nil {
			o.Found = m.found(ctx, c.Job)
		}
	}
	if o.Fate != Lost {
		if m.quarantine.rows[c.Job] == nil {
			m.Logger.Warn("a row can't be updated now; trying again until it can be", "job", c.Job, "wanted", c.Status, "reason", o.Note)
			notice := journal.SetAside{Wanted: c.Status, Reason: o.Note, Token: c.Token}
			t.notices = append(t.notices, journal.Draft{Job: c.Job, Payload: notice})
		}
		return nil
	}
	superseded, err := m.superseded(ctx, c, *o)
	if err == nil && !superseded {
		conflict := journal.Conflict{Found: o.Found, Wanted: c.Status, Reason: o.Note, Token: c.Token}
		t.conflicts = append(t.conflicts, journal.Draft{Job: c.Job, Payload: conflict})
	}
	return err
}

// found is a row as a look finds it; nil where it is gone, or can't be read.
func (m *Mirror) found(ctx context.Context, job int64) *journal.Row {
	seen, err := m.Table.Look(ctx, []int64{job})
	if err != nil || seen[job] == nil {
		return nil
	}
	row := seen[job].Row
	return &row
}

// superseded tells whether the job was claimed again since, or its row set back. If a COMMIT gets no
// answer, its changes are applied a second time. By then somebody may have reset the row, and this
// worker may have claimed it anew: that is no conflict. If the job is under way, the state tells its
// claim. If it has ended, a row that is gone is in conflict, and of any other the history tells. A running
// whose claim is over is never in conflict: what ended the claim is owed to the row, too, and tells whether
// somebody took it. During the claim it is: the row was taken from this worker, and the job is not started
// here.
func (m *Mirror) superseded(ctx context.Context, c Change, o Outcome) (bool, error) {
	var job journal.Job
	m.Source.View(func(s *journal.State) { job = s.Job(c.Job) })
	if !job.Status.Ended() {
		return job.Token != c.Token, nil
	}
	if over := c.Status == journal.RowRunning; over || o.Found == nil {
		return over, nil
	}
	if retried, err := m.Source.Retried(ctx, c.Job, c.first); err != nil || retried {
		return retried, err
	}
	newest, err := m.Source.Claim(ctx, c.Job, math.MaxInt64)
	if errors.Is(err, journal.ErrNoClaim) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("newest claim of job %d: %w", c.Job, err)
	}
	return newest.Token != c.Token, nil
}

// append appends to the journal, waiting while there is no room.
func (m *Mirror) append(ctx context.Context, drafts []journal.Draft) error {
	retry := NewRetry(m.Logger, "journal what the mirror found")
	for len(drafts) > 0 {
		_, err := m.Source.Append(drafts...)
		if err == nil {
			retry.Over()
			return nil
		}
		if !errors.Is(err, journal.ErrFull) {
			return fmt.Errorf("journal what the mirror found: %w", err)
		}
		if err := retry.Wait(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"jobd/journal"
)

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
// claim. If it has ended, the row decides where it is gone or shows a newer start, else the history
// does. A newer start shows that another worker has claimed the row since. After the end of this claim
// that is no conflict. During this claim it is one: the row was taken from this worker, and the job is
// not started here.
func (m *Mirror) superseded(ctx context.Context, c Change, o Outcome) (bool, error) {
	var job journal.Job
	m.Source.View(func(s *journal.State) { job = s.Job(c.Job) })
	if !job.Status.Ended() {
		return job.Token != c.Token, nil
	}
	if o.Found == nil || o.Passed {
		return o.Passed, nil
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

// comparing marks a context.
type comparing struct{}

// Comparing gives a context for the claims by which rows are compared with the journal: they are
// made on a server that is not confirmed, too.
func Comparing(ctx context.Context) context.Context {
	return context.WithValue(ctx, comparing{}, true)
}

// IsComparing tells whether a claim is made to compare rows with the journal.
func IsComparing(ctx context.Context) bool { return ctx.Value(comparing{}) != nil }

// confirmServer finds out, where that is not known, which server the table is on, and lets claims
// be made there once its rows were compared with the journal. New events wait for that.
//
// That it is done is appended before claims are let on. Killed before, the next start does it
// again; killed after, the next start finds the server that the journal names.
func (m *Mirror) confirmServer(ctx context.Context) error {
	retry := NewRetry(m.Logger, "compare the table's server with the journal")
	for m.isDue() {
		err := m.confirmOnce(ctx)
		var failed tableError
		switch {
		case err == nil:
			retry.Over()
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.As(err, &failed):
			return err
		case IsAway(err):
			m.setAway(err)
		}
		m.CheckServer()
		if err := retry.Wait(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// confirmOnce asks for the server once, and goes back where it is another one.
func (m *Mirror) confirmOnce(ctx context.Context) error {
	m.begun()
	id, err := m.Table.Server(ctx)
	if err != nil {
		return tableError{err}
	}
	switch {
	case id == m.Server:
	case m.Server == "":
		err = m.append(ctx, []journal.Draft{{Payload: journal.Server{Server: id}}})
	default:
		err = m.compareServer(ctx, id)
	}
	if err != nil {
		return err
	}
	m.Table.Confirm(id)
	m.Server = id
	if !m.setAway(nil) && !m.confirmed && id != "" && m.OnReturn != nil {
		m.OnReturn()
	}
	m.confirmed = true
	return nil
}

// compareServer brings the rows of a server that the journal does not know up to what the journal
// says of the last minutes.
func (m *Mirror) compareServer(ctx context.Context, id string) error {
	m.Logger.Warn("the table is on another server; its rows are compared with the journal before anything is claimed",
		"server", id, "before", m.Server)
	m.confirmed = false
	if m.back == nil || m.back.server != id {
		m.back = &comparison{mirror: m, server: id, met: time.Now(), mended: map[int64]bool{}, begun: map[int64]bool{}, left: map[int64]string{}}
	}
	if err := m.back.run(ctx); err != nil {
		return err
	}
	select { // other workers have their time to compare their rows
	case <-time.After(time.Until(m.back.met.Add(m.Together))):
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.back.others {
		if err := m.back.run(ctx); err != nil {
			return err
		}
	}
	now, err := m.Table.Server(ctx)
	if err != nil {
		return tableError{err}
	}
	if now != id {
		return tableError{errors.New("it changed again, to " + now)}
	}
	met := journal.Server{Server: id, Before: m.Server, Mended: len(m.back.mended), Left: len(m.back.left)}
	if err := m.append(ctx, []journal.Draft{{Payload: met}}); err != nil {
		return err
	}
	told := []any{"server", id, "mended", met.Mended, "left", met.Left}
	if met.Left > 0 {
		ids := slices.Sorted(maps.Keys(m.back.left))
		told = append(told, "some", ids[:min(len(ids), mostNamed)],
			"remedy", "jobctl journal diff lists them and rows changed by others; jobctl journal reapply shows and makes the updates")
	}
	m.Logger.Warn("the rows of the last minutes were compared with the journal", told...)
	m.back = nil
	return nil
}

// mostNamed is how many rows a message names of those that it counts.
const mostNamed = 8

package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"jobd/journal"
)

// Aside is a row that can't be updated for now, for people to see.
type Aside struct {
	Job    int64
	Target string // of the claim; "" where it is not known
	Wanted string // the status that it is to get next
	Reason string
	Since  time.Time
}

// aside is what a job's row is owed while it can't be updated.
type aside struct {
	changes  []Change // of one claim each, the oldest first, which is the one that is tried
	fate     Fate     // of the newest try
	reason   string
	since    time.Time     // of the first try of this change, by this process
	refused  time.Time     // of the first try that was refused
	earlier  time.Duration // for how long it was aside before this process
	told     []string      // the reasons that are journalled
	pause    time.Duration
	next     time.Time // of the next try
	watchers []watcher // for events of this job, which were tried
}

// first is the oldest event that the row does not show.
func (a *aside) first() uint64 { return a.changes[0].First }

// load is how much is aside.
type load struct{ changes, bytes int }

// Bounds of what is aside; beyond them the mirror reads no further. A batch may exceed them.
const (
	mostAside      = 10_000
	mostAsideBytes = 64 << 20
)

// How long a row is let alone between two tries. A lock goes soon, a rule of the table stays.
const (
	firstHeld    = 50 * time.Millisecond
	longHeld     = 2 * time.Second
	firstRefused = time.Second
	longRefused  = 30 * time.Second
)

// giveUpAfter is for how long an update may be refused before it becomes a conflict, so that
// retention, which waits for the mirror, is not held up for good.
const giveUpAfter = 24 * time.Hour

// mostTold bounds how many reasons are journalled for one change, should each try fail for another
// one.
const mostTold = 8

// Aside lists the rows that can't be updated for now, by job.
func (m *Mirror) Aside() []Aside {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Aside, 0, len(m.aside))
	for job, a := range m.aside {
		list = append(list, Aside{Job: job, Target: a.changes[0].Target, Wanted: a.changes[0].Status, Reason: a.reason, Since: a.since.Add(-a.earlier)})
	}
	slices.SortFunc(list, func(a, b Aside) int { return cmp.Compare(a.Job, b.Job) })
	return list
}

// full tells whether too much is aside to read any further.
func (m *Mirror) full() bool { return m.load.changes >= mostAside || m.load.bytes >= mostAsideBytes }

// tooLong tells whether a job's change has been refused for so long that it is given up.
func (m *Mirror) tooLong(job int64) bool {
	a := m.aside[job]
	return a != nil && a.fate == Refused && time.Since(a.refused)+a.earlier >= giveUpAfter
}

// news tells whether the reason why a change is set aside is to be journalled.
func (m *Mirror) news(c Change, reason string) bool {
	if f := m.formerly[c.Job]; f.Token == c.Token && f.Reason == reason {
		return false
	}
	a := m.aside[c.Job]
	return a == nil || len(a.told) < mostTold && !slices.Contains(a.told, reason)
}

// former is what a former process journalled of a row that it had set aside.
type former struct {
	journal.SetAside
	at time.Time
}

// formerlyAside notes that a row was set aside before, so that a restart neither tells it again nor
// begins to count anew.
func (m *Mirror) formerlyAside(e journal.Event, p journal.SetAside) {
	if _, noted := m.formerly[e.Job]; !noted {
		m.formerly[e.Job] = former{p, e.Time}
	}
}

// recall takes into what is aside what former processes journalled of it. The lock is held.
func (m *Mirror) recall() {
	for job, f := range m.formerly {
		if a := m.aside[job]; a != nil && a.changes[0].Token == f.Token {
			a.earlier = max(a.earlier, a.since.Round(0).Sub(f.at))
			if !slices.Contains(a.told, f.Reason) {
				a.told = append(a.told, f.Reason)
			}
		}
	}
	clear(m.formerly)
}

// setAside puts a change aside, or notes one more try of it. The lock is held.
func (m *Mirror) setAside(c Change, o Outcome, told bool, now time.Time) {
	a := m.aside[c.Job]
	if a == nil {
		a = &aside{since: now}
		m.aside[c.Job] = a
		m.hold(a, c)
	}
	first, longest := firstHeld, longHeld
	if o.Fate == Refused {
		first, longest = firstRefused, longRefused
	}
	if a.fate != o.Fate {
		a.pause = 0
	}
	if o.Fate == Refused && a.refused.IsZero() {
		a.refused = now
	}
	a.pause = min(max(first, 2*a.pause), longest)
	a.fate, a.reason, a.next = o.Fate, o.Note, now.Add(a.pause)
	if told {
		a.told = append(a.told, o.Note)
	}
}

// queue puts a change behind what is aside of its job. The lock is held.
func (m *Mirror) queue(c Change) {
	a := m.aside[c.Job]
	if n := len(a.changes); a.changes[n-1].Token == c.Token {
		m.load.bytes += c.size() - a.changes[n-1].size()
		a.changes[n-1].follow(c)
		return
	}
	m.hold(a, c)
}

// hold appends a change to what is aside. The lock is held.
func (m *Mirror) hold(a *aside, c Change) {
	a.changes = append(a.changes, c)
	m.load.changes++
	m.load.bytes += c.size()
}

// follow makes of a change and a later one of the same claim one.
func (c *Change) follow(later Change) {
	if later.Done != nil && later.Start.IsZero() {
		later.Start = c.Start
	}
	if later.Accepted.IsZero() {
		later.Accepted = c.Accepted
	}
	if later.Target == "" {
		later.Target = c.Target
	}
	later.First = c.First
	*c = later
}

// size is how much output a change brings into the table.
func (c *Change) size() int {
	if c.Done == nil {
		return 0
	}
	return len(c.Done.Stdout.Kept) + len(c.Done.Stderr.Kept)
}

// takeUp ends the waiting of a job's first change; the next one, of a later claim, is tried at
// once. The lock is held.
func (m *Mirror) takeUp(job int64, now time.Time) {
	a := m.aside[job]
	m.load.changes--
	m.load.bytes -= a.changes[0].size()
	if len(a.changes) > 1 {
		a.changes = slices.Delete(a.changes, 0, 1)
		*a = aside{changes: a.changes, since: now, next: now, watchers: a.watchers, reason: a.reason}
		a.watchers = toldBefore(a.watchers, a.first())
		return
	}
	delete(m.aside, job)
	toldBefore(a.watchers, forEver)
}

// dueWithin lets rows that are due at about the same time share a transaction.
const dueWithin = 20 * time.Millisecond

// due lists the changes to be tried now, those with the oldest events first, at most as many as are
// tried together.
func (m *Mirror) due(now time.Time) (changes []Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nextDue.IsZero() || now.Before(m.nextDue) {
		return nil
	}
	var due []*aside
	for _, a := range m.aside {
		if !a.next.After(now.Add(dueWithin)) {
			due = append(due, a)
		}
	}
	slices.SortFunc(due, func(a, b *aside) int { return cmp.Compare(a.first(), b.first()) })
	bytes := 0
	for _, a := range due[:min(m.share, len(due))] {
		if bytes += a.changes[0].size(); bytes > batchBytes && len(changes) > 0 {
			break
		}
		changes = append(changes, a.changes[0])
	}
	return changes
}

// retryAside tries what is aside and due, in one transaction. Where that fails for one of the rows,
// the next turn tries half as many, so that new events wait for one transaction only.
func (m *Mirror) retryAside(ctx context.Context) error {
	changes := m.due(time.Now())
	if len(changes) == 0 {
		return nil
	}
	m.lively, m.rested = time.Now(), false
	outcomes, err := m.attempt(ctx, changes)
	switch {
	case errors.Is(err, errUnchecked):
		return nil // the next step asks for the server
	case failedForARow(ctx, err) && len(changes) > 1:
		m.share = len(changes) / 2
		return nil
	case failedForARow(ctx, err):
		outcomes = []Outcome{{Fate: Held, Note: err.Error()}}
	case err != nil:
		return err
	}
	m.share = min(2*m.share, batchSize)
	return m.settle(ctx, settling{changes: changes, outcomes: outcomes})
}

// reckon finds out which event that is aside is the oldest, and when the next change is due. The
// lock is held.
func (m *Mirror) reckon() {
	m.nextDue, m.oldest = time.Time{}, forEver
	for _, a := range m.aside {
		m.oldest = min(m.oldest, a.first())
		if m.nextDue.IsZero() || a.next.Before(m.nextDue) {
			m.nextDue = a.next
		}
	}
}

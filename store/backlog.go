package store

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"jobd/journal"
)

// backlog holds the rows that can't be updated for now, with the changes that they are owed. Only the
// mirror's goroutine changes it, and holds the lock of its progress meanwhile. That goroutine reads it
// without the lock; all others take the lock to read it. reckon computes the sums from the rows.
type backlog struct {
	rows    map[int64]*owedRow // by job
	changes int                // of all of them
	bytes   int                // of output in these
	oldest  uint64             // the oldest event of these; forEver where there is none
	nextDue time.Time          // of the first of their next tries; zero: none
}

// Bounds of the quarantine; beyond them the mirror reads no further. A batch may exceed them.
const (
	mostQuarantined      = 10_000
	mostQuarantinedBytes = 64 << 20
)

// How long a row is let alone between two tries: ever longer.
const (
	firstPause = 50 * time.Millisecond
	longPause  = 10 * time.Second
)

// mostTried is how many rows are tried together.
const mostTried = 128

// giveUpAfter is for how long an update may be refused before it becomes a conflict, so that
// retention, which waits for the mirror, is not held up for good.
const giveUpAfter = 24 * time.Hour

// full tells whether too much is quarantined to read any further.
func (b *backlog) full() bool { return b.changes >= mostQuarantined || b.bytes >= mostQuarantinedBytes }

// tooLong tells whether a job's change has been refused for so long that it is given up.
func (b *backlog) tooLong(job int64) bool {
	a := b.rows[job]
	return a != nil && a.fate == Refused && time.Since(a.refused) >= giveUpAfter
}

// set quarantines a change, or notes one more try of it.
func (b *backlog) set(c Change, o Outcome, now time.Time) {
	a := b.rows[c.Job]
	if a == nil {
		a = &owedRow{since: now, changes: []Change{c}}
		b.rows[c.Job] = a
	}
	a.changes[0] = c // its end may have been planned anew
	if o.Fate == Refused && a.refused.IsZero() {
		a.refused = now
	}
	a.pause = min(max(firstPause, 2*a.pause), longPause)
	a.fate, a.reason, a.next = o.Fate, o.Note, now.Add(a.pause)
}

// follow puts a change behind the quarantined ones of its job.
func (b *backlog) follow(c Change) {
	a := b.rows[c.Job]
	if newest := &a.changes[len(a.changes)-1]; newest.Token == c.Token {
		newest.follow(c)
	} else {
		a.changes = append(a.changes, c)
	}
}

// endFirst ends the waiting of a job's first change; the next one, of a later claim, is tried at
// once.
func (b *backlog) endFirst(job int64, now time.Time) {
	a := b.rows[job]
	if len(a.changes) > 1 {
		a.changes = slices.Delete(a.changes, 0, 1)
		*a = owedRow{changes: a.changes, since: now, next: now, reason: a.reason}
		return
	}
	delete(b.rows, job)
}

// due lists the changes to be tried now, those with the oldest events first.
func (b *backlog) due(now time.Time) (changes []Change) {
	if b.nextDue.IsZero() || now.Before(b.nextDue) {
		return nil
	}
	var due []*owedRow
	for _, a := range b.rows {
		if !a.next.After(now) {
			due = append(due, a)
		}
	}
	slices.SortFunc(due, func(a, b *owedRow) int { return cmp.Or(a.next.Compare(b.next), cmp.Compare(a.first(), b.first())) })
	bytes := 0
	for _, a := range due {
		if bytes += a.changes[0].size(); len(changes) == mostTried || bytes > batchBytes && len(changes) > 0 {
			break
		}
		changes = append(changes, a.changes[0])
	}
	return changes
}

// reckon sums up what is quarantined.
func (b *backlog) reckon() {
	*b = backlog{rows: b.rows, oldest: forEver}
	for _, a := range b.rows {
		b.oldest = min(b.oldest, a.first())
		if b.nextDue.IsZero() || a.next.Before(b.nextDue) {
			b.nextDue = a.next
		}
		b.changes += len(a.changes)
		for _, c := range a.changes {
			b.bytes += c.size()
		}
	}
}

// trial is changes that the mirror has tried, and what follows from their outcomes.
type trial struct {
	changes  []Change
	outcomes []Outcome
	behind   []Change // changes that wait behind others, untried
	upTo     uint64   // the events that this was all of; 0: these were quarantined

	conflicts []journal.Draft
	notices   []journal.Draft // of quarantined rows
	gaveBack  []string        // targets of rows that wait again, or come back late
}

// progress is how far the table shows the journal, and the watchers that wait for that. The mirror's
// goroutine alone changes it, except that watchers add themselves; its methods are safe for
// concurrent use.
type progress struct {
	bookmark Bookmark

	mu         sync.Mutex
	tried      uint64 // all events up to here are in the table, quarantined or in conflict
	quarantine backlog
	watchers   []watcher
}

// Applied is the newest event up to which the table shows everything that it would take.
func (p *progress) Applied() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.position()
}

// Standing tells up to which event all were tried, and whether the job's row is owed some of these
// still.
func (p *progress) Standing(job int64) (tried uint64, owed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tried, p.quarantine.rows[job] != nil
}

// Reached is the event up to which the mirror has tried to show all.
func (p *progress) Reached() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tried
}

// position is what the bookmark may say: it never passes the oldest event of a quarantined row.
// Callers must hold p.mu.
func (p *progress) position() uint64 { return min(p.tried, p.quarantine.oldest-1) }

// Shown gives a channel that is closed when the mirror is done with event seq of a job, and with
// all before it of the same job: the table shows it, or the journal holds a conflict instead. For
// job 0 it is closed when that holds for all jobs.
func (p *progress) Shown(seq uint64, job int64) <-chan struct{} {
	return p.watch(watcher{seq: seq, job: job})
}

// Tried gives a channel that is closed when the mirror has tried to show event seq and all before
// it. Rows that can't be updated for now are quarantined; it does not wait for them.
func (p *progress) Tried(seq uint64) <-chan struct{} {
	return p.watch(watcher{seq: seq, tried: true})
}

func (p *progress) watch(w watcher) <-chan struct{} {
	w.done = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.tells(w) {
		p.watchers = append(p.watchers, w)
	}
	return w.done
}

// tells ends the waiting of a watcher whose event was reached, and tells whether it was. Callers must hold
// p.mu.
func (p *progress) tells(w watcher) bool {
	oldest := p.quarantine.oldest
	if a := p.quarantine.rows[w.job]; a != nil {
		oldest = a.first()
	} else if w.job != 0 {
		oldest = forEver
	}
	if w.seq > p.tried || w.seq >= oldest && !w.tried {
		return false
	}
	close(w.done)
	return true
}

// Quarantined lists the rows that can't be updated for now, by job.
func (p *progress) Quarantined() []QuarantinedRow {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]QuarantinedRow, 0, len(p.quarantine.rows))
	for job, a := range p.quarantine.rows {
		list = append(list, QuarantinedRow{Job: job, Target: a.changes[0].target, Wanted: a.changes[0].Status, Reason: a.reason, Since: a.since})
	}
	slices.SortFunc(list, func(a, b QuarantinedRow) int { return cmp.Compare(a.Job, b.Job) })
	return list
}

// conclude takes in what became of changes, notes the position and ends the waiting for it.
func (p *progress) conclude(t trial) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range t.changes {
		if o := t.outcomes[i]; o.Fate == Held || o.Fate == Refused {
			p.quarantine.set(c, o, now)
		} else if t.upTo == 0 {
			p.quarantine.endFirst(c.Job, now)
		}
	}
	for _, c := range t.behind {
		p.quarantine.follow(c)
	}
	if t.upTo > 0 {
		p.tried = t.upTo
	}
	p.quarantine.reckon()
	p.bookmark.SetPosition(p.position())
	p.watchers = slices.DeleteFunc(p.watchers, p.tells)
}

// quarantinedDue lists the quarantined changes that are due.
func (p *progress) quarantinedDue(now time.Time) []Change {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := p.quarantine.due(now)
	if len(changes) == 0 {
		p.quarantine.reckon()
	}
	return changes
}

// owe quarantines a change of events that were mirrored before, unless the job has quarantined changes
// already: these have the same result.
func (p *progress) owe(c Change, o Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quarantine.rows[c.Job] == nil {
		c.first = p.tried
		now := time.Now()
		p.quarantine.set(c, o, now)
		p.quarantine.reckon()
	}
}

// watcher waits for one event to be in the table, or to have been tried.
type watcher struct {
	seq   uint64
	job   int64         // 0: all jobs
	tried bool          // that it was tried is enough
	done  chan struct{} // closed when that is so
}

// forEver is behind all events.
const forEver = math.MaxUint64

// batchSize is how many events go into one transaction at most.
const batchSize = 512

// QuarantinedRow is a row that can't be updated for now, for people to see.
type QuarantinedRow struct {
	Job    int64
	Target string // of the claim; "" where it is not known
	Wanted string // the status that it gets next
	Reason string
	Since  time.Time
}

// owedRow is what a job's row is owed while it can't be updated.
type owedRow struct {
	changes []Change // of one claim each, the oldest first, which is the one that is tried
	fate    Fate     // of the newest try
	reason  string
	since   time.Time // of the first try of this change, by this process
	refused time.Time // of the first try that was refused
	pause   time.Duration
	next    time.Time // of the next try
}

// first is the oldest event that the row does not show.
func (a *owedRow) first() uint64 { return a.changes[0].first }

// Retry waits out outages, with growing intervals and jitter, and reports each
// cause once, not each try, and the end. It is for one goroutine.
type Retry struct {
	logger  *slog.Logger
	what    string
	backoff *backoff.ExponentialBackOff
	told    map[string]bool // causes
	since   time.Time       // of the outage; zero: there is none
	level   slog.Level      // at which it was reported
}

// mostCauses is how many causes of one outage are reported: some tell a figure that changes.
const mostCauses = 10

// Intervals between tries: 100 ms at first, 1 s at most, each half more or less by chance, so that what is back is used within two
// seconds.
const (
	firstInterval = 100 * time.Millisecond
	maxInterval   = time.Second
)

// NewRetry makes a Retry for something that is named in the log, with what it is about: keys and
// values as slog takes them.
func NewRetry(logger *slog.Logger, what string, about ...any) *Retry {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = firstInterval, maxInterval
	return &Retry{logger: logger.With(about...), what: what, backoff: b, told: make(map[string]bool)}
}

// Wait reports cause where it is new and waits for the time of the next try. It
// fails when ctx ends before.
func (r *Retry) Wait(ctx context.Context, cause error) error {
	if r.since.IsZero() {
		r.since = time.Now()
	}
	if text := cause.Error(); !r.told[text] && len(r.told) < mostCauses {
		r.told[text] = true
		r.report(cause)
	}
	timer := time.NewTimer(r.backoff.NextBackOff())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// report logs what keeps us from the table; what waiting cannot mend is an error. Of a server that
// is compared with the journal first the mirror itself says all there is.
func (r *Retry) report(cause error) {
	var unusable *Unusable
	var another *AnotherServer
	level := slog.LevelWarn
	switch {
	case errors.As(cause, &unusable):
		level = slog.LevelError
	case errors.As(cause, &another):
		level = slog.LevelDebug
	}
	if len(r.told) == 1 || level > r.level {
		r.level = level
	}
	r.logger.Log(context.Background(), level, r.what+" failed; trying again until it succeeds", "error", cause)
}

// Over reports that the outage, if there was one, is at its end, and how long it was: as a warning
// too, so that a log that tells of the one tells of the other.
func (r *Retry) Over() {
	if r.since.IsZero() {
		return
	}
	level := min(r.level, slog.LevelWarn)
	after := time.Since(r.since).Round(time.Millisecond)
	r.logger.Log(context.Background(), level, r.what+" succeeds again", "after", after)
	r.since = time.Time{}
	clear(r.told)
	r.backoff.Reset()
}

package reconcile

import (
	"context"
	"iter"
	"time"

	"jobd/journal"
	"jobd/store"
)

// Diff visits the jobs whose rows don't say what the journal says.
func Diff(ctx context.Context, config Config, visit func(Difference) error) error {
	c, err := begin(ctx, config)
	if err != nil {
		return err
	}
	return c.differences(ctx, time.Time{}, func(batch []Difference) error {
		for _, d := range batch {
			if err := visit(d); err != nil {
				return err
			}
		}
		return nil
	})
}

// differences compares the jobs to which something happened since a time with the table, and gives
// those that differ by the batch.
func (c *comparison) differences(ctx context.Context, since time.Time, use func([]Difference) error) error {
	var batch []journal.Job
	compare := func() error {
		differing, err := c.compare(ctx, batch)
		batch = nil
		if err != nil || len(differing) == 0 {
			return err
		}
		return use(differing)
	}
	for job, err := range c.Journal.Jobs(ctx, time.Time{}) {
		if err != nil {
			return err
		}
		if newestOf(job).Before(since) {
			continue
		}
		if batch = append(batch, job); len(batch) == batchRows {
			if err := compare(); err != nil {
				return err
			}
		}
	}
	return compare()
}

// newestOf is when something last happened to a job.
func newestOf(job journal.Job) time.Time {
	newest := job.Accepted.Time
	for _, at := range []time.Time{job.Running.Time, job.Ended} {
		if at.After(newest) {
			newest = at
		}
	}
	return newest
}

// batchRows is how many rows are looked at in one statement, and brought back in one transaction.
const batchRows = 200

// compare gives those of some jobs whose rows differ. A job may have moved on since the journal was read:
// such jobs are judged one by one, all others in one go. The mirror's position is taken first, then the
// row, then the journal, which is ahead of both: so a row that should show an event up to the position,
// and does not, was changed by somebody else, unless it is quarantined.
func (c *comparison) compare(ctx context.Context, jobs []journal.Job) (differing []Difference, err error) {
	type standing struct {
		tried uint64
		owed  bool
	}
	standings, ids := make([]standing, len(jobs)), make([]int64, len(jobs))
	for i, job := range jobs {
		if ids[i] = job.ID; c.Mirror != nil {
			standings[i].tried, standings[i].owed = c.Mirror.Standing(job.ID)
		}
	}
	found, err := c.look(ctx, ids)
	if err == nil {
		err = c.tail.readOn(ctx)
	}
	if err != nil {
		return nil, err
	}
	for i, job := range jobs {
		at := standings[i]
		moves := c.tail != nil && (c.tail.has(job.ID) || at.tried < c.tail.from)
		switch {
		case store.Agrees(job, found[job.ID]):
			continue
		case moves && len(jobs) > 1:
			more, err := c.compare(ctx, []journal.Job{job})
			if err != nil {
				return nil, err
			}
			differing = append(differing, more...)
			continue
		case moves || job.Status == journal.StatusIgnored || job.Status == journal.StatusRetried: // which may have been taken back
			now, shown, err := replay(ctx, c.Journal, job.ID)
			if err != nil {
				return nil, err
			}
			if now.Status != journal.StatusNone { // else retention has removed how it began
				job = now
			}
			at.owed = at.owed || moves && shown > at.tried
		}
		if d, differs := judge(job, found[job.ID], at.owed); differs {
			differing = append(differing, d)
		}
	}
	return differing, nil
}

// Journal is the history that the table is compared with.
type Journal interface {
	Events(ctx context.Context, filter journal.Filter) iter.Seq2[journal.Event, error]
	// Jobs gives each job as the history knows it at a time; the zero time is now.
	Jobs(ctx context.Context, at time.Time) iter.Seq2[journal.Job, error]
	// First and Newest are the numbers of the oldest and of the newest event.
	First(ctx context.Context) (uint64, error)
	Newest(ctx context.Context) (uint64, error)
	Anchor(ctx context.Context) (journal.Anchor, error)
	// Kept says what retention has removed; nil where the history is whole.
	Kept(ctx context.Context) (*journal.RemovedError, error)
}

// Table is the part of a store.Table that this package uses.
type Table interface {
	store.Changer
	Unclaimed(ctx context.Context, targets []string, created, after int64, limit int) ([]int64, error)
}

// Mirror tells how far the table is behind the journal.
type Mirror interface {
	// Tried gives a channel that is closed when the mirror has tried to show all events up to seq.
	Tried(seq uint64) <-chan struct{}
	// Standing tells up to which event all were tried, and whether the job's row is owed some of
	// these still.
	Standing(job int64) (tried uint64, owed bool)
}

// Config says what is compared with what.
type Config struct {
	Journal Journal
	Table   Table
	// Mirror is that of the worker which writes the journal; nil for the journal of a lost worker,
	// to which nothing is appended any more.
	Mirror Mirror
}

// TableError says that the table failed, and what it was asked for then.
type TableError struct {
	Doing string
	Err   error
}

// Error implements error.
func (e *TableError) Error() string { return e.Doing + ": " + e.Err.Error() }

// Unwrap gives the table's error.
func (e *TableError) Unwrap() error { return e.Err }

// Cause is why a row does not say what the journal says, in the word that clients get.
type Cause string

// The causes.
const (
	causeOwed    Cause = "owed"    // the mirror has not written it yet, or the claim is not committed yet
	causeChanged Cause = "changed" // somebody else changed the row, or it is gone
	causeOther   Cause = "other"   // the row is another job's, which got the same id again
)

// Difference is a job whose row does not say what the journal says.
type Difference struct {
	Job    journal.Job
	Row    *store.Seen // nil: there is none
	Cause  Cause
	Reason string // in words, where the cause does not say it all

	claiming bool // its claim may not have been committed yet
}

// catchUp is how long the mirror gets to show what is in the journal when a comparison begins.
const catchUp = 10 * time.Second

// comparison is one comparison of a journal with the table.
type comparison struct {
	Config
	tail *tail // nil: nothing is appended
}

// begin begins a comparison. The mirror gets time to show what is in the journal.
func begin(ctx context.Context, c Config) (*comparison, error) {
	if c.Mirror == nil {
		return &comparison{Config: c}, nil
	}
	newest, err := c.Journal.Newest(ctx)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(catchUp)
	defer timer.Stop()
	select {
	case <-c.Mirror.Tried(newest):
	case <-timer.C:
	}
	appended := &tail{journal: c.Journal, from: newest, read: newest, jobs: make(map[int64]bool)}
	return &comparison{Config: c, tail: appended}, nil
}

// look reads rows without locking them.
func (c *comparison) look(ctx context.Context, ids []int64) (map[int64]*store.Seen, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := c.Table.Look(ctx, ids)
	if err != nil {
		return nil, &TableError{"looking at rows for a client", err}
	}
	return found, nil
}

// claimTime is how long a claim may take from its event to its commit: until then its row still
// reads as before.
const claimTime = time.Minute

// judge tells how a job's row differs from what the journal says, if it does. An owed row may still
// be brought up to date by the mirror.
func judge(job journal.Job, row *store.Seen, owed bool) (d Difference, differs bool) {
	if store.Agrees(job, row) {
		return d, false
	}
	d = Difference{Job: job, Row: row, Cause: causeChanged}
	claim := job.Status == journal.StatusAccepted || job.Status == journal.StatusStarting && job.Claimed
	ignoring := job.Status == journal.StatusIgnored && time.Since(job.Ended) < claimTime
	retrying := job.Status == journal.StatusRetried && time.Since(job.Ended) < claimTime
	d.claiming = ignoring || retrying || claim && time.Since(job.Accepted.Time) < claimTime
	switch {
	case store.IsAnotherJob(job, row):
		d.Cause, d.Reason = causeOther, store.AnotherJob
	case owed || d.claiming:
		d.Cause = causeOwed
	}
	return d, true
}

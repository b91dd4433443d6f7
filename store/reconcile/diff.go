package reconcile

import (
	"context"
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

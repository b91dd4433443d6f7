package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
	jobnet "jobd/net"
)

// A restored table shows rows waiting that ran since the backup was made. Those that the journal tells of are brought up to
// date. Of the others it can tell that they have not run only from where its history begins: what was before, retention has
// removed, or it is lost with a former journal. A row that was created before that, waits, and is not in the history may have
// run, and would be run again; so nothing is reapplied before somebody says that this is known.

// unknownPage is how many rows are asked for in one go, and told in one item.
const unknownPage = 10_000

// unknown finds the rows that wait and of which the journal can't tell whether they have run.
func (p *reapplying) unknown(ctx context.Context) (history.Unknown, error) {
	told := history.Unknown{Name: p.told.Journal}
	if told.Name == "" {
		told.Name = p.worker.Name
	}
	suspects := make(map[int64]bool)
	for _, id := range p.query.Among {
		suspects[id] = true
	}
	if p.query.Among == nil {
		begins, removed, err := beginning(ctx, p.reader)
		if err != nil || !p.query.Since.IsZero() && !begins.After(p.query.Since) {
			return told, err
		}
		told.Begins, told.Removed = begins, removed
		if err := p.suspects(ctx, begins, suspects); err != nil {
			return told, err
		}
	}
	if len(suspects) > 0 {
		for job, err := range p.reader.Jobs(ctx, time.Time{}) {
			if err != nil {
				return told, err
			}
			started := job.Status == journal.StatusStarting || job.Status == journal.StatusRunning
			if p.moved.reader != nil || !started { // how a job ended that a lost worker had started, it does not tell
				delete(suspects, job.ID)
			}
		}
	}
	told.Rows = slices.Sorted(maps.Keys(suspects))
	return told, nil
}

// suspects finds the rows that wait and were created before a time.
func (p *reapplying) suspects(ctx context.Context, before time.Time, into map[int64]bool) error {
	targets := p.worker.TargetNames()
	for after := int64(0); ; {
		ids, err := p.table.Unclaimed(ctx, targets, before.Unix(), after, unknownPage)
		if err != nil {
			return p.tableFailed(err)
		}
		for _, id := range ids {
			into[id], after = true, id
		}
		if len(ids) < unknownPage {
			return nil
		}
	}
}

// beginning is when a history begins, and whether retention has removed what was before.
func beginning(ctx context.Context, r *journal.Reader) (begins time.Time, removed bool, err error) {
	kept, err := r.Kept(ctx)
	if err != nil {
		return begins, false, err
	}
	if kept != nil {
		return kept.Since, true, nil
	}
	for e, err := range r.Events(ctx, journal.Filter{}) {
		return e.Time, false, err
	}
	return time.Now(), false, nil
}

// tellUnknown gives what was found in items that fit into a page.
func (p *reapplying) tellUnknown(told history.Unknown) error {
	rows := told.Rows
	for first := true; first || len(rows) > 0; first = false {
		told.Rows = rows[:min(len(rows), unknownPage)]
		rows = rows[len(told.Rows):]
		if err := p.yield(told); err != nil {
			return err
		}
	}
	return nil
}

// refuseUnknown ends a reapply of a journal that can't tell of some rows whether they have run. Who knows of other journals
// that can asks for the rows first, and then goes on.
func (p *reapplying) refuseUnknown(ctx context.Context) error {
	if p.query.Journal != "" {
		return nil // the worker's own journal was asked
	}
	told, err := p.unknown(ctx)
	if err != nil || len(told.Rows) == 0 {
		return err
	}
	why := jobnet.Refusal(fmt.Sprintf("%s; nothing was changed", describeUnknown(told)))
	p.refusals.note(journal.Refused{Request: "journal-reapply", Reason: string(why), By: p.told.By})
	return why
}

// describeUnknown says what is not known.
func describeUnknown(told history.Unknown) string {
	return fmt.Sprintf("%d rows wait that were created before the history of %s begins (%s), and nobody can tell whether they have run",
		len(told.Rows), told.Name, told.Begins.UTC().Format(time.RFC3339))
}

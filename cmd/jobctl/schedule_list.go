package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"jobd/journal"
	"jobd/net/api"
)

// recurringRow is a row that recurs, and the worker that told of it.
type recurringRow struct {
	Worker string `json:"worker,omitempty"` // "" where one worker was asked
	api.RecurringRow
}

// listRecurring lists the rows that recur, so many at most (0: all). Of a master's workers those are
// asked that it takes to have each target once: the others would tell the same of the same table.
func (p *program) listRecurring(ctx context.Context, target string, most int) error {
	return p.linked(ctx, func(ctx context.Context, c *client) error {
		if err := c.expect(ctx); err != nil {
			return err
		}
		all, errs, err := recurringOf(ctx, c, target, most)
		if err != nil {
			return err
		}
		if len(all) == 0 && len(errs) == 0 {
			p.noteUnserved(ctx, target)
		}
		return errors.Join(append([]error{p.printRecurring(all, c.master)}, errs...)...)
	})
}

// recurringOf asks for rows that recur. A worker that can't tell is an error beside what the others
// say.
func recurringOf(ctx context.Context, c *client, target string, most int) (all []recurringRow, errs []error, err error) {
	var targets []string
	if target != "" {
		targets = []string{target}
	}
	errs, err = onceEach(ctx, c, targets, func(one asking) (enough bool, err error) {
		rows, err := one.recurring(ctx, rest(most, len(all)))
		all = append(all, rows...)
		return most > 0 && len(all) >= most, err
	})
	return all, errs, err
}

// rest is how many rows are still wanted; 0: all.
func rest(most, have int) int {
	if most == 0 {
		return 0
	}
	return most - have
}

// recurring asks for the rows, page by page.
func (a asking) recurring(ctx context.Context, most int) (all []recurringRow, err error) {
	var query api.RecurringQuery
	query.Targets = a.targets
	for {
		if most > 0 {
			query.Most = min(most-len(all), api.MostRecurring)
		}
		var page api.RecurringRows
		if err := a.from.ask(ctx, api.Recurring.Name, fieldsOf(query), &page); err != nil {
			return nil, err
		}
		for _, row := range page.Rows {
			all = append(all, recurringRow{a.from.name, row})
		}
		if !page.More || len(page.Rows) == 0 || most > 0 && len(all) >= most {
			return all, nil
		}
		after := page.Rows[len(page.Rows)-1].Job
		query.After = &after
	}
}

// printRecurring prints rows that recur.
func (p *program) printRecurring(all []recurringRow, workers bool) error {
	if p.json() {
		if all == nil {
			all = []recurringRow{}
		}
		return p.printJSON(map[string]any{"rows": all})
	}
	t := p.recurringTable(all, false, false)
	if !t.fitsInto(p) {
		t = p.recurringTable(all, true, false)
	}
	if !t.fitsInto(p) {
		t = p.recurringTable(all, true, true)
	}
	p.print(t)
	for _, row := range all {
		if row.Error != "" {
			fmt.Fprintf(p.err, "jobctl: job %d: %s\n", row.Job, clean(row.Error))
		}
	}
	return nil
}

// resultText is how the run, or the attempt, ended that ended last.
func (r recurringRow) resultText() string {
	switch {
	case r.Finished == 0:
		return ""
	case r.Signal != "":
		return r.Signal
	case r.Result == "ok" || r.Code == nil:
		return r.Result
	}
	return fmt.Sprintf("%s %d", r.Result, *r.Code)
}

// recurringTable has a row for each row that recurs. Where a terminal is too narrow for it, zones and
// results stand below, and times below their dates: nothing of that is cut.
func (p *program) recurringTable(all []recurringRow, below, broken bool) table {
	t := table{
		head: []string{"JOB", "TARGET", "SCHEDULE", "LAST RUN", "RESULT", "NEXT RUN"}, none: "no row recurs",
		elastic: "TARGET|SCHEDULE",
	}
	if below {
		t.head = slices.Delete(t.head, 4, 5)
	}
	for _, row := range all {
		when, next := p.nextText(row)
		if !below {
			t.add(line(row.Job), line(row.Target), line(inZone(row.Schedule, row.Zone)), line(p.seconds(row.Finished)), line(row.resultText()),
				line(strings.TrimSpace(when+" "+next)))
			continue
		}
		t.add(line(row.Job), line(row.Target), lines(row.Schedule, zoneOf(row.Schedule, row.Zone)),
			lines(append(parted(p.seconds(row.Finished), broken), row.resultText())...), lines(append([]string{when}, parted(next, broken)...)...))
	}
	return t
}

// parted is a time, or its date and its time of day.
func parted(at string, part bool) []string {
	if part {
		return strings.Fields(at)
	}
	return []string{at}
}

// nextText is when a row is run next, and what is to be said before that: that it is running, say.
func (p *program) nextText(r recurringRow) (when, next string) {
	now := p.now().Unix()
	switch {
	case r.Error != "":
		return "never:", "bad schedule"
	case r.Status == journal.RowRunning:
		return "runs; then", p.seconds(r.Next)
	case r.Status != journal.RowDelayed:
		return r.Status + "; then", p.seconds(r.Next)
	case r.RunAt == 0:
		return "not planned yet", ""
	case r.Attempts > 0:
		return fmt.Sprintf("attempt %d at", r.Attempts+1), p.seconds(r.RunAt)
	case r.RunAt <= now:
		return "due since", p.seconds(r.RunAt)
	}
	return "", p.seconds(r.RunAt)
}

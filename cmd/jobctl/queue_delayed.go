package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"jobd/exec/schedule"
	"jobd/net/api"
)

// usualDelayed is how many delayed rows are listed where nobody says otherwise.
const usualDelayed = 20

// delayedRow is a row that comes at a time, and the worker that told of it.
type delayedRow struct {
	Worker string `json:"worker,omitempty"` // "" where one worker was asked
	api.DelayedRow
}

// listDelayed lists rows that are delayed, so many at most, in the order in which they are due.
func (p *program) listDelayed(ctx context.Context, c *client, targets []string, most int) error {
	if err := c.expect(ctx); err != nil {
		return err
	}
	all, more, errs, err := delayedOf(ctx, c, targets, most)
	if err != nil {
		return err
	}
	if len(all) == 0 && len(errs) == 0 {
		for _, target := range targets {
			p.noteUnserved(ctx, target)
		}
	}
	return errors.Join(append([]error{p.printDelayed(all, more)}, errs...)...)
}

// delayedOf asks for the rows that are due next. Of a master's workers each tells the first ones of its
// targets, so that the first ones of all are among them.
func delayedOf(ctx context.Context, c *client, targets []string, most int) (all []delayedRow, more bool, errs []error, err error) {
	errs, err = onceEach(ctx, c, targets, func(one asking) (enough bool, err error) {
		var answer api.DelayedRows
		if err := one.from.ask(ctx, api.Delayed.Name, fieldsOf(api.DelayedQuery{Targets: one.targets, Most: most}), &answer); err != nil {
			return false, err
		}
		more = more || answer.More
		for _, row := range answer.Rows {
			all = append(all, delayedRow{one.from.name, row})
		}
		return false, nil
	})
	slices.SortStableFunc(all, func(a, b delayedRow) int { return cmp.Or(cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.Job, b.Job)) })
	if len(all) > most {
		all, more = all[:most], true
	}
	return all, more, errs, err
}

// printDelayed prints delayed rows.
func (p *program) printDelayed(all []delayedRow, more bool) error {
	if p.json() {
		if all == nil {
			all = []delayedRow{}
		}
		return p.printJSON(map[string]any{"rows": all, "more": more})
	}
	t := table{head: []string{"JOB", "TARGET", "DUE", "WHY"}, none: "no row is delayed", elastic: "TARGET|WHY"}
	for _, row := range all {
		t.add(line(row.Job), line(row.Target), line(p.dueText(row)), line(row.why()))
	}
	p.print(t)
	if !more {
		return nil
	}
	return p.sayNone(fmt.Sprintf("the next %d; -n N shows more", len(all)))
}

// dueText is when a row is due.
func (p *program) dueText(row delayedRow) string {
	if row.RunAt == 0 {
		return "not planned yet"
	}
	return p.seconds(row.RunAt)
}

// why is why a row is delayed.
func (row delayedRow) why() string {
	recurs := ""
	if row.Schedule != "" {
		recurs = "recurs " + inZone(row.Schedule, row.In)
	}
	switch {
	case row.Bad != "":
		return "is ignored then: " + row.Bad
	case row.Attempts > 0:
		text := fmt.Sprintf("attempt %d", row.Attempts+1)
		if row.MaxAttempts > 0 {
			text += fmt.Sprintf(" of %d", row.MaxAttempts)
		}
		if how := row.lastEnd(); how != "" {
			text += " after " + how
		}
		if recurs != "" {
			text += "; " + recurs
		}
		return text
	case recurs != "":
		return recurs
	}
	return "first time"
}

// lastEnd is how the attempt ended that ended last.
func (row delayedRow) lastEnd() string {
	switch {
	case row.Signal != "":
		return row.Signal
	case row.Result == "fail" && row.Code != nil:
		return fmt.Sprintf("exit code %d", *row.Code)
	}
	return row.Result
}

// inZone is a schedule, and its zone where that is to be told.
func inZone(text, zone string) string {
	return strings.TrimSpace(text + " " + zoneOf(text, zone))
}

// zoneOf is the zone of a schedule, where that is not the usual one and means something.
func zoneOf(text, zone string) string {
	if s, err := schedule.Parse(text); err == nil {
		if _, every := s.Every(); every {
			return ""
		}
	}
	if zone == "UTC" {
		return ""
	}
	return zone
}

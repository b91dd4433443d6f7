package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"jobd/exec/schedule"
	"jobd/journal"
	"jobd/net/contract"
)

// recurringRow is a row that recurs, and the worker that told of it.
type recurringRow struct {
	Worker string `json:"worker,omitempty"` // "" where one worker was asked
	contract.RecurringRow
}

// asking is a worker, and the targets whose rows it is asked for.
type asking struct {
	from    *remote
	targets []string // none: all that it serves
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
	if !c.master {
		one := asking{from: &remote{client: c}}
		if target != "" {
			one.targets = []string{target}
		}
		all, err = one.recurring(ctx, most)
		return all, nil, cannotTell(err)
	}
	var status masterStatus
	if err := c.askInto(ctx, contract.MasterStatus.Name, contract.Polling{}, &status); err != nil {
		return nil, nil, err
	}
	left := map[string][]*remote{} // who serves each target
	for _, w := range status.Workers {
		r := &remote{client: c, name: w.Name, address: net.JoinHostPort(w.RemoteAddr, strconv.Itoa(w.RemotePort))}
		for _, name := range w.Targets {
			if target == "" || name == target {
				left[name] = append(left[name], r)
			}
		}
	}
	var failed map[*remote]error
	for len(left) > 0 && (most == 0 || len(all) < most) {
		next := fewest(left, failed)
		if next.from == nil { // nobody is left who could be asked
			break
		}
		rows, err := next.recurring(ctx, rest(most, len(all)))
		if err != nil {
			if failed == nil {
				failed = map[*remote]error{}
			}
			if failed[next.from] = err; ctx.Err() != nil {
				break
			}
			continue
		}
		all = append(all, rows...)
		for _, name := range next.targets {
			delete(left, name)
		}
	}
	for r, err := range failed {
		errs = append(errs, fmt.Errorf("worker '%s': %w", clean(r.name), cannotTell(err)))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if len(left) == 0 {
		errs = nil // others have told what these could not
	}
	return all, errs, nil
}

// rest is how many rows are still wanted; 0: all.
func rest(most, have int) int {
	if most == 0 {
		return 0
	}
	return most - have
}

// fewest is who is asked next: whoever serves most of the targets that are left, but for those who
// could not tell.
func fewest(left map[string][]*remote, failed map[*remote]error) (next asking) {
	serves := map[*remote][]string{}
	for name, who := range left {
		for _, r := range who {
			if failed[r] == nil {
				serves[r] = append(serves[r], name)
			}
		}
	}
	for r, names := range serves {
		if better := len(names) - len(next.targets); better > 0 || better == 0 && r.address < next.from.address {
			next = asking{r, names}
		}
	}
	slices.Sort(next.targets)
	return next
}

// recurring asks for the rows, page by page.
func (a asking) recurring(ctx context.Context, most int) (all []recurringRow, err error) {
	var query contract.RecurringQuery
	query.Targets = a.targets
	for {
		if most > 0 {
			query.Most = min(most-len(all), contract.MostRecurring)
		}
		var page contract.RecurringRows
		if err := a.from.ask(ctx, contract.Recurring.Name, fieldsOf(query), &page); err != nil {
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
	t := table{
		head: []string{"JOB", "TARGET", "SCHEDULE", "LAST RUN", "RESULT", "NEXT RUN"}, none: "no row recurs",
		elastic: "TARGET|SCHEDULE",
	}
	for _, row := range all {
		t.add(line(row.Job), line(row.Target), line(row.scheduleText()), line(p.seconds(row.Finished)), line(row.resultText()), line(p.nextText(row)))
	}
	p.print(t)
	for _, row := range all {
		if row.Error != "" {
			fmt.Fprintf(p.err, "jobctl: job %d: %s\n", row.Job, clean(row.Error))
		}
	}
	return nil
}

// scheduleText is the schedule, and its zone where that is not the usual one and means something.
func (r recurringRow) scheduleText() string {
	if s, err := schedule.Parse(r.Schedule); err == nil {
		if _, every := s.Every(); every {
			return r.Schedule
		}
	}
	if r.Zone == "" || r.Zone == "UTC" {
		return r.Schedule
	}
	return r.Schedule + " " + r.Zone
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

// nextText is when a row is run next, or that it is running.
func (p *program) nextText(r recurringRow) string {
	now := p.now().Unix()
	switch {
	case r.Error != "":
		return "never: bad schedule"
	case r.Status == journal.RowRunning:
		return "runs; then " + p.seconds(r.Next)
	case r.Status != journal.RowDelayed:
		return r.Status + "; then " + p.seconds(r.Next)
	case r.RunAt == 0:
		return "not planned yet"
	case r.Attempts > 0:
		return fmt.Sprintf("attempt %d at %s", r.Attempts+1, p.seconds(r.RunAt))
	case r.RunAt <= now:
		return "due since " + p.seconds(r.RunAt)
	}
	return p.seconds(r.RunAt)
}

package service

import (
	"context"
	"fmt"
	"time"

	"jobd/exec/schedule"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store"
)

// Recurring lists rows that recur, with their next planned start.
func (s *Service) Recurring(ctx context.Context, _ Call, q api.RecurringQuery) (told api.RecurringRows, err error) {
	targets, err := s.ofTable(q.Targets)
	if err != nil {
		return told, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	rows, err := s.Table.Recurring(ctx, targets, q.Behind(), q.Most)
	if err != nil {
		return told, s.unlisted("rows that recur", err)
	}
	now := s.Worker.ServerTime()
	told.Rows = make([]api.RecurringRow, len(rows))
	for i, row := range rows {
		told.Rows[i] = s.recurringRow(row, now)
	}
	told.More = len(rows) == q.Most
	return told, nil
}

// recurringRow is a row that recurs in its form on the wire.
func (s *Service) recurringRow(row *store.Seen, now time.Time) api.RecurringRow {
	p := row.Plan
	told := api.RecurringRow{
		Job: jobnet.Whole(row.Job), Target: row.Target, Status: row.Status, Schedule: p.Schedule,
		Planned: p.PlannedAt, Attempts: p.Attempts,
		Started: row.Started, Finished: row.Finished, Result: row.Result, Code: row.Code, Signal: SignalOf(row.Signal),
	}
	if row.Status == journal.RowDelayed {
		told.RunAt, told.Due, told.Paused = p.RunAt, p.RunAt <= now.Unix(), p.Paused()
	}
	var err error
	if told.Zone, told.Next, err = s.following(row.Target, row.Status, *p, now); err != nil {
		told.Error = err.Error()
	}
	return told
}

// following is the next planned start of a row that recurs, behind the run that is due or under way,
// the zone in which its schedule is read, and how far behind that it starts.
func (s *Service) following(target, status string, p journal.Plan, now time.Time) (
	zone string, next int64, err error,
) {
	_, in := s.Worker.TermsOf(target)
	zone = in.String()
	if p.Zone != "" {
		zone = p.Zone
		if in, err = schedule.Zone(p.Zone); err != nil {
			return zone, 0, err
		}
	}
	plan, err := schedule.Parse(p.Schedule)
	if err != nil {
		return zone, 0, err
	}
	_, elapsed := plan.Every()
	switch {
	case status == journal.RowDelayed && p.Paused():
		return zone, 0, nil
	case status == journal.RowDelayed && p.RunAt == 0 && elapsed: // at once
		next = now.Unix()
	case status == journal.RowDelayed && p.RunAt == 0: // the first claim plans it
		next = plan.Next(now.Unix(), in)
	case status == journal.RowDelayed && p.Attempts == 0 && p.RunAt > now.Unix():
		next = p.RunAt
	case p.PlannedAt == 0 && p.RunAt == 0:
		next = plan.Following(now.Unix(), now.Unix(), in)
	case p.PlannedAt == 0:
		next = plan.Following(p.RunAt, now.Unix(), in)
	default:
		next = plan.Following(p.PlannedAt, now.Unix(), in)
	}
	if next == 0 {
		err = fmt.Errorf("schedule %q has no time before the year 2100", p.Schedule)
	}
	return zone, next, err
}

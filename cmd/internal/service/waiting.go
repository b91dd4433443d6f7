package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/schedule"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store"
)

// What waits: rows that nobody has claimed, and those that come at a time.

// counts is the jobs table, as far as rows are counted; see store.Table.
type counts interface {
	CountWaiting(ctx context.Context, target string, most int) (store.Counted, error)
	WaitingTargets(ctx context.Context, most int) ([]string, error)
	NextDue(ctx context.Context, targets []string, except []int64) (journal.Due, error)
}

// listTimeout is how long listing or counting rows may take, for all targets of a request.
const listTimeout = 5 * time.Second

// errUncounted says that the time was over before a target's turn came.
var errUncounted = fmt.Errorf("it was not counted: counting took longer than %v", listTimeout)

// The requests of this file look at the table and change nothing, so there is nothing for a crash to
// leave behind.

// ofTable gives the targets of which rows are listed: nil stands for all that are served. A table that
// is out of reach is not asked.
func (s *Service) ofTable(targets []string) ([]string, error) {
	if now := s.Process.Database(); !now.Reachable {
		return nil, jobnet.Refusef("the database is away since %s: %s", now.Since.UTC().Format(time.RFC3339), now.Error)
	}
	if targets == nil {
		targets = slices.Sorted(maps.Keys(s.Worker.Status().Targets))
	}
	return targets, nil
}

// isAway tells whether an error says that the table is out of reach. Then the worker looks at it, too: nothing
// else may do so for a while.
func (s *Service) isAway(err error) bool {
	if store.IsAway(err) {
		s.Worker.LookAtTable()
		return true
	}
	return false
}

// unlisted is what a client is told where rows of a kind can't be listed.
func (s *Service) unlisted(what string, err error) error {
	if errors.Is(err, store.ErrNoDelays) || errors.Is(err, store.ErrNoSchedules) {
		return jobnet.Refusal(err.Error())
	}
	s.isAway(err)
	s.Logger.Warn("looking at the table for a client failed", "rows", what, "error", err)
	return jobnet.Refusef("%s can't be read now: %v", what, err)
}

// Waiting counts the rows that wait for targets. A target whose rows can't be counted has an error of
// its own.
func (s *Service) Waiting(ctx context.Context, _ Call, q api.WaitingQuery) (told api.WaitingRows, err error) {
	targets, err := s.ofTable(q.Targets)
	if err != nil {
		return told, err
	}
	most := cmp.Or(q.Most, api.MostCounted)
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errUncounted)
	defer cancel()
	told.Targets = make(map[string]api.WaitingTarget, len(targets))
	var lost error // the table's
	for _, name := range targets {
		if lost == nil {
			lost = context.Cause(ctx)
		}
		if lost != nil {
			told.Targets[name] = api.WaitingTarget{Error: lost.Error()}
			continue
		}
		told.Targets[name], lost = s.count(ctx, name, most)
	}
	if lost == nil && context.Cause(ctx) == nil {
		s.addDue(ctx, targets, told.Targets, most)
		if q.Others {
			s.addOthers(ctx, targets, told.Targets, most)
		}
	}
	return told, nil
}

// mostOthers bounds the targets that are looked at for those that nobody has asked about.
const mostOthers = 1000

// addOthers counts what waits for targets that nobody has asked about: of a name that is misspelt, say.
func (s *Service) addOthers(ctx context.Context, asked []string, told map[string]api.WaitingTarget, most int) {
	names, err := s.Table.WaitingTargets(ctx, mostOthers)
	if err != nil {
		s.Logger.Warn("the targets of waiting rows could not be listed for a client", "error", err)
	}
	for _, name := range names {
		if !slices.ContainsFunc(asked, func(one string) bool { return strings.EqualFold(one, name) }) {
			told[name], _ = s.count(ctx, name, most)
		}
	}
}

// Unfinished lists the jobs of a target that wait or run.
func (s *Service) Unfinished(ctx context.Context, _ Call, q api.UnfinishedQuery) (told api.UnfinishedJobs, err error) {
	targets, err := s.ofTable([]string{q.Target})
	if err != nil {
		return told, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	rows, err := s.Table.Unclaimed(ctx, targets, math.MaxInt64, math.MinInt64, api.MostCancelled)
	if err != nil {
		return told, jobnet.Refusef("rows of target '%s' can't be listed now: %v", q.Target, err)
	}
	for _, id := range append(s.Worker.JobsOf(q.Target, q.Waiting), rows...) {
		told.Jobs = append(told.Jobs, jobnet.Whole(id))
	}
	told.More = len(rows) == api.MostCancelled
	return told, nil
}

// count counts for one target. The error is one that all others would have, too.
func (s *Service) count(ctx context.Context, name string, most int) (told api.WaitingTarget, lost error) {
	counted, err := s.Table.CountWaiting(ctx, name, most)
	switch {
	case err == nil:
		return api.WaitingTarget{Count: counted.Rows, More: counted.More, Oldest: counted.Oldest}, nil
	case errors.Is(err, context.DeadlineExceeded):
		err = errUncounted
	case s.isAway(err):
		lost = err
	}
	return api.WaitingTarget{Error: err.Error()}, lost
}

// addDue tells when the next delayed row of each target is due, and how many are. A table that has
// no such rows tells nothing, and is asked nothing.
func (s *Service) addDue(ctx context.Context, targets []string, told map[string]api.WaitingTarget, most int) {
	due, err := s.Table.NextDue(ctx, targets, nil)
	if err != nil {
		s.Logger.Warn("the next delayed rows could not be looked up for a client", "error", err)
	}
	for name, next := range due.Next {
		one := told[name]
		one.NextDue, one.Now = next, due.Now.Unix()
		if next <= due.Now.Unix() && err == nil {
			var counted store.Counted
			if counted, err = s.Table.CountDue(ctx, name, 0, most); err != nil {
				s.Logger.Warn("counting due rows for a client failed", "error", err)
			}
			one.Due, one.DueMore = counted.Rows, counted.More
		}
		told[name] = one
	}
}

// rowPlan is what a row of a target says about time in its form on the wire; nil where nothing is used
// of that.
func (s *Service) rowPlan(status, target string, p *journal.Plan, now time.Time) *api.RowPlan {
	if p == nil {
		return nil
	}
	told := &api.RowPlan{
		RunAt: p.RunAt, PlannedAt: p.PlannedAt, Attempts: p.Attempts, MaxAttempts: p.MaxAttempts, Timeout: p.Timeout,
		Schedule: p.Schedule, Zone: p.Zone, Due: status == journal.RowDelayed && p.RunAt <= now.Unix(), Now: now.Unix(),
	}
	if most := s.mostAttempts(target, p); most > 0 {
		told.MaxAttempts = int64(most)
	}
	if p.Schedule != "" {
		var err error
		if told.In, told.Next, err = s.following(target, status, *p, now); err != nil {
			told.Bad = err.Error()
		}
	}
	return told
}

// countDue counts what is due before rows that are.
func (x *explanation) countDue(ctx context.Context) {
	x.each(func(id int64, job *api.ExplainedJob) {
		row := x.rows[id]
		if row == nil || job.Row.Plan == nil || !job.Row.Plan.Due || row.Plan.RunAt == 0 {
			return
		}
		n, err := x.Table.CountDue(ctx, row.Target, row.Plan.RunAt, api.MostCounted)
		if err != nil {
			x.Logger.Warn("counting due rows for a client failed", "error", err)
			return
		}
		job.Ahead = &api.JobsAhead{Rows: n.Rows, More: n.More}
	})
}

// mostAttempts is how often a run is started at most, as its row or else its target says; 0 where
// neither does.
func (s *Service) mostAttempts(target string, plan *journal.Plan) int {
	if plan != nil && plan.MaxAttempts > 0 {
		return int(plan.MaxAttempts)
	}
	terms, _ := s.Worker.TermsOf(target)
	return terms.Attempts
}

// It is an exec.Worker that is asked in the end.
var _ Worker = (*jobexec.Worker)(nil)

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

package service

import (
	"context"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/net/api"
	"jobd/store"
)

// addDue tells when the next delayed row of each target is due, and how many are. A table that has
// no such rows tells nothing, and is asked nothing.
func (s *Service) addDue(ctx context.Context, targets []string, told map[string]api.WaitingTarget) {
	due, err := s.Table.NextDue(ctx, targets, nil)
	if err != nil {
		s.Logger.Warn("looking for the next delayed rows for a client failed", "error", err)
	}
	for name, next := range due.Next {
		one := told[name]
		one.NextDue = next
		if next <= due.Now.Unix() && err == nil {
			var counted store.Counted
			if counted, err = s.Table.CountDue(ctx, name, 0, api.MostCounted); err != nil {
				s.Logger.Warn("counting due rows for a client failed", "error", err)
			}
			one.Due, one.DueMore = counted.Rows, counted.More
		}
		told[name] = one
	}
}

// readPlans takes in what the rows say about time, where they have not told that yet.
func (x *explanation) readPlans(ctx context.Context) {
	var ids []int64
	for id, row := range x.rows {
		if row.Plan == nil {
			ids = append(ids, id)
		}
	}
	plans, err := x.Table.Plans(ctx, ids)
	if err != nil {
		x.Logger.Warn("reading what rows say about time for a client failed", "error", err)
	}
	for id, plan := range plans {
		x.rows[id].Plan = plan
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
		Schedule: p.Schedule, Zone: p.Zone, Due: status == journal.RowDelayed && p.RunAt <= now.Unix(),
	}
	if most := s.mostAttempts(target, p); most > 0 {
		told.MaxAttempts = int64(most)
	}
	if p.Schedule != "" {
		var err error
		if told.In, told.Next, err = s.following(status, *p, now); err != nil {
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

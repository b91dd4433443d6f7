package main

import (
	"context"
	"errors"
	"fmt"

	"jobd/cmd/internal/history"
	jobnet "jobd/net"
	"jobd/net/api"
)

// find asks all workers which of them has the job: the one where it is under way, else the one
// where it ended last. A job that nobody has may wait.
func (f *follower) find(ctx context.Context) error {
	if f.target != "" {
		if err := f.checkTarget(ctx); err != nil {
			return err
		}
	}
	fleet, err := askFleet[api.JobOutput](ctx, f.client, api.Output.Name, api.OutputQuery{Job: f.job, Most: 1})
	if err != nil {
		return err
	}
	claimed, newest := false, int64(-1)
	for _, one := range fleet {
		switch a := one.answer; {
		case one.err != nil:
		case a.Running && a.State == api.OutputRunning:
			f.on = one.from
			f.first(&a)
			return nil
		case a.State == api.OutputClaimed:
			claimed = true
		case a.Done != nil && a.Done.Ended > newest:
			newest, f.on = a.Done.Ended, one.from
			f.first(&a)
		}
	}
	if claimed {
		f.on = nil
		return f.await("it is claimed, and has not started")
	}
	if f.on != nil {
		return nil
	}
	return f.absent(ctx, fleet)
}

// first says from where on a job is shown.
func (f *follower) first(a *api.JobOutput) {
	if f.begun {
		return // somewhere else: it goes on where it was
	}
	f.attempt, f.goal = a.Attempt, [2]int64{a.Stdout.Size, a.Stderr.Size}
	if f.waited {
		f.lines = -1
	}
	if !f.waited && f.lines < 0 && f.follow && a.Running {
		f.lines = usualLines
	}
	if f.lines >= 0 {
		f.from = [2]int64{-api.MostOutput, -api.MostOutput}
	}
}

// usualLines is what tail -f shows of what there is already.
const usualLines = 10

// await tells, once, that a job has not started; without -f that is an error.
func (f *follower) await(text string) error {
	err := fmt.Errorf("job %d: %s", f.job, text)
	if !f.follow {
		return err
	}
	if !f.waited {
		f.waited = true
		f.note(fmt.Errorf("%w; what it writes follows", err))
	}
	return nil
}

// mostMissed is how often a job that no worker had, and whose row says that it was claimed, is
// looked for again.
const mostMissed = 2

// absent says where a job is that no worker has. Workers and row are asked one after the other, and
// a job may be claimed in between: where the row says so, the workers are asked again.
func (f *follower) absent(ctx context.Context, fleet []told[api.JobOutput]) error {
	row, err := f.row(ctx)
	unheard := silent(fleet)
	switch {
	case err != nil:
		return errors.Join(fmt.Errorf("job %d: nobody knows it, and the table could not be asked: %w", f.job, err), unheard)
	case row == nil:
		return errors.Join(fmt.Errorf("job %d: nobody knows it, and the table has no such row", f.job), unheard)
	case row.Status == "waiting" || row.Status == "manual":
		return f.await(fmt.Sprintf("it has not started: its row is '%s'", row.Status))
	case f.missed < mostMissed:
		f.missed++
		return nil
	}
	if row.Status == "accepted" || row.Status == "running" {
		return errors.Join(fmt.Errorf("job %d: its row is '%s', and nobody who was asked has its output; "+
			"the worker that has claimed it was not asked, or does not answer", f.job, clean(row.Status)), unheard)
	}
	return errors.Join(f.fromRow(ctx), unheard)
}

// row asks the table, through the first worker that can.
func (f *follower) row(ctx context.Context) (*history.Row, error) {
	ids := map[string]any{"ids": []jobnet.Whole{f.job}}
	fleet, err := askFleet[history.RowsAnswer](ctx, f.client, api.JournalRows, ids)
	if err != nil {
		return nil, err
	}
	for _, one := range fleet {
		if err = one.err; err == nil {
			if len(one.answer.Rows) == 0 {
				return nil, nil
			}
			return &one.answer.Rows[0], nil
		}
	}
	return nil, err
}

func (f *follower) checkTarget(ctx context.Context) error {
	row, err := f.row(ctx)
	if err != nil {
		return fmt.Errorf("job %d: whether it is of target '%s' the table could not be asked: %w", f.job, clean(f.target), err)
	}
	if row != nil && row.Target != f.target {
		return fmt.Errorf("job %d is of target '%s', not '%s'", f.job, clean(row.Target), clean(f.target))
	}
	return nil
}

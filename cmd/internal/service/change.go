package service

import (
	"context"
	"strings"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Cancel has jobs not run, or end. Where nothing was cancelled and something was refused, that is
// part of the history.
func (s *Service) Cancel(ctx context.Context, from Call, q api.CancelQuery) (told api.CancelAnswer, err error) {
	wish := jobexec.CancelWish{
		IDs: int64s(q.IDs), Targets: fromID(q.Targets), Grace: api.DefaultGrace * time.Millisecond,
		Rows: q.Rows, By: from.From, Schedule: q.Schedule,
	}
	if q.Grace != nil {
		wish.Grace = time.Duration(*q.Grace) * time.Millisecond
	}
	done, err := s.Worker.Cancel(ctx, wish)
	told.Jobs, told.Errors, err = answered(s, api.Cancel.Name, from, done.Answer, err, cancelled)
	told.Elsewhere = byID(done.Elsewhere, func(row journal.Row) api.ClaimedRow {
		return api.ClaimedRow{Status: row.Status, Owner: row.Owner, Target: row.Target}
	})
	return told, err
}

// cancelled is what a client is told of a job that was cancelled.
func cancelled(job jobexec.CancelledJob) api.CancelledJob {
	told := api.CancelledJob{State: api.CancelCancelling, Target: job.Target, By: job.By, Next: job.Next}
	switch job.Did {
	case board.NotRun:
		told.State = api.CancelIgnored
		return told
	case board.GivenUp:
		told.State = api.CancelDone
		return told
	}
	told.Before = job.Did == board.Already
	told.Grace, told.Kill = job.Grace.Milliseconds(), job.At.Add(job.Grace).UnixMilli()
	return told
}

// Retry sets rows that are done or ignored back, to be run once more.
func (s *Service) Retry(ctx context.Context, from Call, q api.RetryRows) (told api.RetriedRows, err error) {
	answer, err := s.Worker.SetBack(ctx, jobexec.RetryWish{
		IDs: int64s(q.IDs), Finished: fromID(q.Finished), To: fromID(q.To), By: from.From,
	})
	told.Jobs, told.Errors, err = answered(s, api.Retry.Name, from, answer, err, as[string])
	return told, err
}

// Plan changes the plans of delayed rows as a request of this name wants it.
func (s *Service) Plan(request string, hand board.Hand) func(context.Context, Call, api.PlanRows) (api.PlannedRows, error) {
	return func(ctx context.Context, from Call, q api.PlanRows) (told api.PlannedRows, err error) {
		answer, err := s.Worker.Plan(ctx, jobexec.PlanWish{Hand: hand, IDs: int64s(q.IDs), By: from.From})
		told.Jobs, told.Errors, err = answered(s, request, from, answer, err, as[int64])
		return told, err
	}
}

// Reload reads the configuration again, and tells what it has changed.
func (s *Service) Reload(_ context.Context, from Call, _ api.None) (told api.Reloaded, err error) {
	before := s.Worker.Status().Targets
	if told, err = s.Process.Reload(from.From); err != nil {
		return told, jobnet.Refusef("not reloaded: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	told.Before, told.After = make(map[string]api.TargetStatus), make(map[string]api.TargetStatus)
	after := s.Worker.Status().Targets
	for name, was := range before {
		if now, stays := after[name]; !stays || was.Concurrency != now.Concurrency || was.Paused != now.Paused {
			told.Before[name] = api.TargetStatus(was)
		}
	}
	for name, now := range after {
		_, changed := told.Before[name]
		if _, was := before[name]; changed || !was {
			told.After[name] = api.TargetStatus(now)
		}
	}
	return told, nil
}

const refusedStopping = jobnet.Refusal("not restarted: the worker is stopping")

// Restart hands over to this worker's next start. That start is tried first, and what it says is
// wrong is told before anything is given up. Only one restart is under way at a time, and none
// while the process stops.
//
// The crash argument: until the request is journalled nothing has changed. From then on this is a
// stop with handover, killed or not: what runs is with the runner, everything else in the journal.
func (s *Service) Restart(ctx context.Context, from Call, r api.Restarting) (told api.Restarted, err error) {
	next, err := s.restart(ctx, from)
	if err != nil {
		return told, s.judge(api.Restart.Name, from, err)
	}
	if r.Next {
		told.Next = &next
	}
	return told, nil
}

func (s *Service) restart(ctx context.Context, from Call) (next api.Successor, err error) {
	if s.Process.Stopping() {
		return next, refusedStopping.With(jobnet.CodeStopping)
	}
	if !s.restarting.CompareAndSwap(false, true) {
		return next, jobnet.Refusal("not restarted: a restart is under way already")
	}
	by := from.From
	next, err = s.Process.Follow(ctx)
	if err == nil && s.Process.Stopping() { // meanwhile
		return next, refusedStopping.With(jobnet.CodeStopping)
	}
	if err == nil {
		err = s.Worker.Note(journal.Requested{Request: api.Restart.Name, By: by})
	}
	if err != nil {
		s.restarting.Store(false)
		s.Logger.Error("restart refused", "by", by, "error", err)
		return next, jobnet.Refusef("not restarted: %v", err)
	}
	s.Worker.HandOver() // before the end begins
	s.Process.Restart(by)
	return next, nil
}

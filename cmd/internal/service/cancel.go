package service

import (
	"context"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/board"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Cancel has jobs not run, or end. Where nothing was cancelled and something was refused, that is
// part of the history.
func (s *Service) Cancel(ctx context.Context, from Call, q api.CancelQuery) (told api.CancelAnswer, err error) {
	wish := jobexec.CancelWish{
		IDs: make([]int64, len(q.IDs)), Targets: make(map[int64]string, len(q.Targets)),
		Grace: api.DefaultGrace * time.Millisecond, Rows: q.Rows, By: from.From.String(),
	}
	for i, id := range q.IDs {
		wish.IDs[i] = int64(id)
	}
	for id, target := range q.Targets {
		wish.Targets[int64(id)] = target
	}
	if q.Grace != nil {
		wish.Grace = time.Duration(*q.Grace) * time.Millisecond
	}
	done, err := s.Worker.Cancel(ctx, wish)
	if err != nil {
		return told, s.judge(api.Cancel.Name, from, err)
	}
	if len(done.Jobs) == 0 && len(done.Errors) > 0 {
		s.Refusals.add(api.Cancel.Name, from, firstOf(done.Errors))
	}
	told = api.CancelAnswer{
		Jobs:   make(map[jobnet.Whole]api.CancelledJob, len(done.Jobs)),
		Errors: byID(done.Errors), Elsewhere: make(map[jobnet.Whole]api.ClaimedRow, len(done.Elsewhere)),
	}
	for id, job := range done.Jobs {
		told.Jobs[jobnet.Whole(id)] = cancelled(job)
	}
	for id, row := range done.Elsewhere {
		told.Elsewhere[jobnet.Whole(id)] = api.ClaimedRow{Status: row.Status, Owner: row.Owner, Target: row.Target}
	}
	return told, nil
}

// cancelled is what a client is told of a job that was cancelled.
func cancelled(job jobexec.CancelledJob) api.CancelledJob {
	told := api.CancelledJob{State: api.CancelCancelling, Target: job.Target, By: job.By}
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

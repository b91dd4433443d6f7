package service

import (
	"context"

	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

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
	by := from.From.String()
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

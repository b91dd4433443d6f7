package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store"
)

// counts is the jobs table, as far as rows are counted; see store.Table.
type counts interface {
	CountWaiting(ctx context.Context, target string, most int) (store.Counted, error)
	NextDue(ctx context.Context, targets []string, except []int64) (journal.Due, error)
}

// countTimeout is how long counting may take, for all targets of a request.
const countTimeout = 5 * time.Second

// errUncounted says that the time was over before a target's turn came.
var errUncounted = fmt.Errorf("it was not counted: counting took longer than %v", countTimeout)

// Waiting counts the rows that wait for targets. It changes nothing, so there is nothing for a
// crash to leave behind. A target whose rows can't be counted has an error of its own; a table that
// is out of reach is not asked.
func (s *Service) Waiting(ctx context.Context, _ Call, q api.WaitingQuery) (told api.WaitingRows, err error) {
	if now := s.Process.Database(); !now.Reachable {
		return told, jobnet.Refusef("the database is away since %s: %s", now.Since.UTC().Format(time.RFC3339), now.Error)
	}
	if q.Targets == nil {
		for name := range s.Worker.Status().Targets {
			q.Targets = append(q.Targets, name)
		}
		slices.Sort(q.Targets)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, countTimeout, errUncounted)
	defer cancel()
	told.Targets = make(map[string]api.WaitingTarget, len(q.Targets))
	var lost error // the table's
	for _, name := range q.Targets {
		if lost == nil {
			lost = context.Cause(ctx)
		}
		if lost != nil {
			told.Targets[name] = api.WaitingTarget{Error: lost.Error()}
			continue
		}
		told.Targets[name], lost = s.count(ctx, name)
	}
	if lost == nil && context.Cause(ctx) == nil {
		s.addDue(ctx, q.Targets, told.Targets)
	}
	return told, nil
}

// count counts for one target. The error is one that all others would have, too.
func (s *Service) count(ctx context.Context, name string) (told api.WaitingTarget, lost error) {
	counted, err := s.Table.CountWaiting(ctx, name, api.MostCounted)
	switch {
	case err == nil:
		return api.WaitingTarget{Count: counted.Rows, More: counted.More, Oldest: counted.Oldest}, nil
	case errors.Is(err, context.DeadlineExceeded):
		err = errUncounted
	case store.IsAway(err):
		lost = err
	}
	return api.WaitingTarget{Error: err.Error()}, lost
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"jobd/cmd/jobctl/live"
	jobnet "jobd/net"
	"jobd/net/api"
)

// cancel cancels a running job, on the worker that runs it.
func (s *topSource) cancel(ctx context.Context, c *client, job live.Job) (string, error) {
	r := &remote{client: c, name: job.Worker, address: job.Address}
	query := api.CancelQuery{IDs: []jobnet.Whole{job.Job}, Targets: map[jobnet.Whole]string{job.Job: job.Target}}
	var answer api.CancelAnswer
	if err := askOne(ctx, r, api.Cancel.Name, query, &answer); err != nil {
		return "", mayBeDone(err, api.Cancel.Name)
	}
	became, known := answer.Jobs[job.Job]
	switch {
	case answer.Errors[job.Job] != "":
		return "", errors.New(answer.Errors[job.Job])
	case !known:
		return "", errors.New("its worker does not have it any more")
	case became.State != api.CancelCancelling:
		return became.State, nil
	case became.Before:
		return fmt.Sprintf("was cancelled before, by %s; it gets KILL at %s", became.By, s.clock(became.Kill)), nil
	}
	return fmt.Sprintf("it got TERM, and gets KILL at %s", s.clock(became.Kill)), nil
}

// clock is the time of day of unix milliseconds.
func (s *topSource) clock(at int64) string {
	return time.UnixMilli(at).In(s.p.location).Format(time.TimeOnly)
}

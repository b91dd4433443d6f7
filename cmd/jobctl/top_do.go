package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"jobd/cmd/jobctl/live"
	"jobd/net/api"
)

// Do implements live.Source.
func (s *topSource) Do(ctx context.Context, a live.Action) (answer string, err error) {
	err = s.link.use(ctx, func(c *client) error {
		switch a.Kind {
		case live.Pause:
			answer, err = s.tellTarget(ctx, c, api.Pause, a.Target)
		case live.Continue:
			answer, err = s.tellTarget(ctx, c, api.Continue, a.Target)
		case live.Poke:
			answer, err = s.tellTarget(ctx, c, s.look(), a.Target)
		case live.Term:
			answer, err = s.signal(ctx, c, a.Job, syscall.SIGTERM)
		case live.Kill:
			answer, err = s.signal(ctx, c, a.Job, syscall.SIGKILL)
		case live.Cancel:
			answer, err = s.cancel(ctx, c, a.Job)
		}
		return err
	})
	return answer, err
}

// look is what has workers look for jobs.
func (s *topSource) look() api.Request[api.Targets, api.Done] {
	if s.p.config.master {
		return api.Poke
	}
	return api.Poll
}

func (s *topSource) tellTarget(ctx context.Context, c *client, r api.Request[api.Targets, api.Done], target string) (string, error) {
	var done api.Done
	if err := c.askInto(ctx, r.Name, api.Targets{Targets: []string{target}, Detail: c.master}, &done); err != nil {
		return "", mayBeDone(err, r.Name)
	}
	if r.Name == api.Poke.Name && len(done.Unserved) > 0 {
		return "no worker serves it now; the poke is kept until one does", nil
	}
	return done.Result, s.p.missed(ctx, r.Name, done)
}

func (s *topSource) signal(ctx context.Context, c *client, job live.Job, signal syscall.Signal) (string, error) {
	name := api.SendSignal.Name
	var answer api.Delivered
	if err := c.askInto(ctx, name, s.p.signalRequest([]jobRef{{id: job.Job, target: job.Target}}, int(signal)), &answer); err != nil {
		return "", mayBeDone(err, name)
	}
	key := strconv.FormatInt(int64(job.Job), 10)
	switch {
	case answer.Errors[key] != "":
		return "", errors.New(answer.Errors[key])
	case !answer.Jobs[key]:
		return "", fmt.Errorf("job %s is not running any more", key)
	}
	return "sent", nil
}

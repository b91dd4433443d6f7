package main

import (
	"context"

	"jobd/cmd/internal/reason"
	"jobd/cmd/jobctl/live"
	jobnet "jobd/net"
	"jobd/net/api"
)

// sentence is what jobctl why says of a job of which only its worker is asked.
func (s *topSource) sentence(ctx context.Context, c *client, job live.Job) string {
	answer := reason.Answer{Name: job.Worker}
	r := &remote{client: c, name: job.Worker, address: job.Address}
	answer.Err = askOne(ctx, r, api.Explain.Name, api.ExplainQuery{IDs: []jobnet.Whole{job.Job}}, &answer.Explained)
	question := reason.Question{Job: int64(job.Job), Target: job.Target, Master: s.p.config.master, Now: s.p.now(), Location: s.p.location}
	return reason.Of(question, []reason.Answer{answer}).Sentence
}

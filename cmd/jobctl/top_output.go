package main

import (
	"context"
	"fmt"
	"time"

	"jobd/cmd/jobctl/live"
	"jobd/net/api"
)

// nextOf is where the part behind this one begins.
func nextOf(o api.OutputPart) int64 { return o.At + int64(len(o.Bytes)) }

// textOfPart is the part, and a line in place of what was not kept before it.
func textOfPart(o api.OutputPart) string {
	if o.Skipped > 0 {
		return fmt.Sprintf("[%d bytes were not kept]\n%s", o.Skipped, o.Bytes)
	}
	return string(o.Bytes)
}

// Output implements live.Source.
func (s *topSource) Output(ctx context.Context, job live.Job, behind live.Place) (output live.Output, err error) {
	err = s.link.use(ctx, func(c *client) error {
		r := &remote{client: c, name: job.Worker, address: job.Address}
		var answer api.JobOutput
		query := api.OutputQuery{Job: job.Job, Attempt: job.Attempt, Stdout: behind.Stdout, Stderr: behind.Stderr}
		if err := askOne(ctx, r, api.Output.Name, query, &answer); err != nil {
			return err
		}
		out, errs := answer.Stdout, answer.Stderr
		output = live.Output{
			Stdout: textOfPart(out), Stderr: textOfPart(errs), Next: live.Place{Stdout: nextOf(out), Stderr: nextOf(errs)},
			More: len(out.Bytes) > 0 && nextOf(out) < out.Size || len(errs.Bytes) > 0 && nextOf(errs) < errs.Size,
		}
		output.Ended = answer.State == api.OutputEnded && !output.More
		output.Note = s.noteOf(answer)
		return nil
	})
	return output, err
}

// noteOf says how a job ended, or why nothing comes.
func (s *topSource) noteOf(answer api.JobOutput) string {
	switch {
	case answer.Done != nil && answer.Done.Ended > 0:
		return endOf(answer.Done) + ", at " + time.UnixMilli(answer.Done.Ended).In(s.p.location).Format(time.DateTime)
	case answer.Done != nil:
		return endOf(answer.Done)
	case answer.Adopted:
		return "its runner is gone, and nobody reads what it writes"
	case answer.State == api.OutputClaimed:
		return "it has not started yet"
	}
	return ""
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"jobd/cmd/jobctl/live"
	jobnet "jobd/net"
)

// outputName is the request for what a job has written.
const outputName = "output"

// The data of that request and of its answer, as far as the live view needs them.
type (
	outputQuery struct {
		Job     jobnet.Whole `json:"job"`
		Attempt int          `json:"attempt,omitempty"`
		Stdout  int64        `json:"stdout,omitempty"`
		Stderr  int64        `json:"stderr,omitempty"`
	}
	outputPart struct {
		At      int64  `json:"at"`
		Bytes   []byte `json:"bytes,omitempty"`
		Size    int64  `json:"size"`
		Skipped int64  `json:"skipped,omitempty"`
	}
	jobOutput struct {
		Running bool       `json:"running"`
		Adopted bool       `json:"adopted,omitempty"`
		Stdout  outputPart `json:"stdout"`
		Stderr  outputPart `json:"stderr"`
		Done    *struct {
			Result string  `json:"result"`
			Code   *int    `json:"code"`
			Signal *string `json:"signal"`
			Reason string  `json:"reason,omitempty"`
			Ended  int64   `json:"ended"`
		} `json:"done,omitempty"`
	}
)

// next is where the part behind this one begins.
func (o outputPart) next() int64 { return o.At + int64(len(o.Bytes)) }

// text is the part, and a line in place of what was not kept before it.
func (o outputPart) text() string {
	if o.Skipped > 0 {
		return fmt.Sprintf("[%d bytes were not kept]\n%s", o.Skipped, o.Bytes)
	}
	return string(o.Bytes)
}

// Output implements live.Source.
func (s *topSource) Output(ctx context.Context, job live.Job, behind live.Place) (output live.Output, err error) {
	err = s.link.use(ctx, func(c *client) error {
		r := &remote{client: c, name: job.Worker, address: job.Address}
		var answer jobOutput
		query := outputQuery{Job: job.Job, Attempt: job.Attempt, Stdout: behind.Stdout, Stderr: behind.Stderr}
		if err := askOne(ctx, r, outputName, query, &answer); err != nil {
			return err
		}
		out, errs := answer.Stdout, answer.Stderr
		output = live.Output{
			Stdout: out.text(), Stderr: errs.text(), Next: live.Place{Stdout: out.next(), Stderr: errs.next()},
			More: len(out.Bytes) > 0 && out.next() < out.Size || len(errs.Bytes) > 0 && errs.next() < errs.Size,
		}
		output.Ended = !answer.Running && !output.More
		output.Note = s.noteOf(answer)
		return nil
	})
	return output, err
}

// noteOf says how a job ended, or why nothing comes.
func (s *topSource) noteOf(answer jobOutput) string {
	if done := answer.Done; done != nil {
		text := "it has ended: "
		switch {
		case done.Signal != nil && *done.Signal != "":
			text += "killed by " + *done.Signal
		case done.Code != nil && *done.Code != 0:
			text += fmt.Sprintf("exit code %d", *done.Code)
		default:
			text += cmp.Or(done.Result, "nobody knows how")
		}
		if done.Ended > 0 {
			text += ", at " + time.UnixMilli(done.Ended).In(s.p.location).Format(time.DateTime)
		}
		if done.Reason != "" {
			text += "; " + done.Reason
		}
		return text
	}
	if answer.Adopted {
		return "its runner is gone, and nobody reads what it writes"
	}
	return ""
}

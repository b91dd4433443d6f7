package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/reason"
	jobnet "jobd/net"
	"jobd/net/api"
)

func (p *program) why() *ffcli.Command {
	c := command("why", "why ID… | T:ID…", "one sentence: where a job is, and what it waits for", func(ctx context.Context, args []string) error {
		jobs, err := anyJobs("why", args, api.MostJobs)
		if err != nil {
			return err
		}
		return p.linked(ctx, func(ctx context.Context, c *client) error {
			if err := c.expect(ctx); err != nil {
				return err
			}
			return p.sayWhy(ctx, c, jobs)
		})
	})
	c.LongHelp = "  jobctl why 5\n  jobctl --master why 5 mail:6\n  jobctl why 5 --output json | jq -r .reason"
	return c
}

// sayWhy prints a sentence about each job. Where one is not explained, that is the exit code.
func (p *program) sayWhy(ctx context.Context, c *client, jobs []jobRef) error {
	explainedAll, told := true, false
	for some := range slices.Chunk(jobs, api.MostExplained) {
		e, verdicts, err := p.verdicts(ctx, c, some)
		if err != nil {
			return err
		}
		if !told {
			e.noteSilent(p)
			told = true
		}
		for i, verdict := range verdicts {
			explainedAll = explainedAll && verdict.Explained()
			if err := p.sayVerdict(some[i], verdict); err != nil {
				return err
			}
		}
	}
	if !explainedAll {
		return exit.With(exit.Failure, errors.New("")) // the sentence says it
	}
	return nil
}

// verdictForm is a verdict as jobctl prints it for programs.
type verdictForm struct {
	Job      jobnet.Whole `json:"job"`
	Reason   reason.Code  `json:"reason"`
	Sentence string       `json:"sentence"`
	Worker   string       `json:"worker,omitempty"`
}

func formOf(job jobRef, v reason.Verdict) verdictForm {
	return verdictForm{job.id, v.Reason, v.Sentence, v.Worker}
}

// sayVerdict prints one verdict.
func (p *program) sayVerdict(job jobRef, v reason.Verdict) error {
	if p.json() {
		return p.printJSON(formOf(job, v))
	}
	_, err := fmt.Fprintln(p.out, p.paint(clean(v.Sentence), toneOfReason(v.Reason)))
	return err
}

// toneOfReason is the tone of a verdict.
func toneOfReason(r reason.Code) tone {
	switch r {
	case reason.Done:
		return good
	case reason.Failed, reason.Killed, reason.TimedOut, reason.BadSchedule, reason.Unknown, reason.NoSuchJob, reason.Unreadable:
		return bad
	case reason.Running, reason.Waiting, reason.Slots, reason.Next, reason.Prefetched, reason.Starting, reason.Claimed, reason.Manual, reason.Ended,
		reason.Delayed, reason.Recurring:
		return plain
	}
	return odd
}

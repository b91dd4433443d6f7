package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/net/contract"
)

func (p *program) journalState() *ffcli.Command {
	at := timeFlag{p: p}
	var status statusFlag
	c := p.journalCommand("state", "", "every job's status, now or at a time, by replay", func(ctx context.Context, j *journals, _ []string) error {
		if at.at.After(p.now()) {
			p.note(errors.New("--at is in the future: this is how it stands now"))
		}
		q := history.AtQuery{At: at.at, Status: journal.Status(status)}
		all := merge(j, func(s source) iter.Seq2[history.Job, error] { return s.jobs(ctx, q) }, history.Job.Before)
		return p.buffered(func() error { return p.printStates(j, all) })
	})
	c.FlagSet.Var(&at, "at", "as it was at this time: 2026-11-20 14:00, 2h (ago), or unix time in seconds")
	c.FlagSet.Var(&status, "status", "only jobs of this status: "+strings.Join(statusNames(), ", "))
	return c
}

func (p *program) printStates(j *journals, jobs iter.Seq2[from[history.Job], error]) error {
	states := p.report(j.named(), "no jobs", "JOB", "TARGET", "STATUS", "RESULT", "ATTEMPT", "ACCEPTED", "RUNNING", "ENDED")
	progress := p.progress("jobs")
	defer progress.end()
	for entry, err := range jobs {
		if err != nil {
			return states.end(err)
		}
		worker, job := entry.source.worker(), entry.item
		err = states.add(worker, workersJob{worker, job}, toneOfStatus(job.Status, job.Result),
			job.Job, job.Target, string(job.Status), outcome(job), job.Attempt,
			p.clock(job.Accepted), p.clock(job.Running), p.clock(job.Ended))
		if err != nil {
			return err
		}
		if !p.terminal {
			progress.at(states.count)
		}
	}
	return states.end(nil)
}

// workersJob is a job's state as JSON.
type workersJob struct {
	Worker string `json:"worker,omitempty"`
	history.Job
}

// outcome says how a job ended, where it did.
func outcome(job history.Job) string {
	if job.Status != journal.StatusDone {
		return job.Reason
	}
	return outcomeOf(contract.Outcome{Result: job.Result, Code: job.Code, Signal: &job.Signal})
}

// statusFlag is a flag.Value for a job's status.
type statusFlag journal.Status

// String implements flag.Value.
func (f *statusFlag) String() string { return "" }

// Set implements flag.Value.
func (f *statusFlag) Set(text string) error {
	if !slices.Contains(statusNames(), text) {
		return fmt.Errorf("%q is not allowed; allowed are: %s", text, strings.Join(statusNames(), ", "))
	}
	*f = statusFlag(text)
	return nil
}

func statusNames() []string {
	var names []string
	for _, status := range history.Statuses() {
		names = append(names, string(status))
	}
	return names
}

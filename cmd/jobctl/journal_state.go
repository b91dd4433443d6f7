package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

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
	head := []string{"JOB", "TARGET", "STATUS", "RESULT", "ATTEMPT", "ACCEPTED", "RUNNING", "ENDED"}
	if p.brief() {
		head = append(head[:5], "SINCE")
	}
	states := p.report(j.named(), "no jobs", head...).cutAt("WORKER|TARGET|RESULT")
	progress := p.progress("jobs")
	defer progress.end()
	for entry, err := range jobs {
		if err != nil {
			return states.end(err)
		}
		worker, job := entry.source.worker(), entry.item
		values := []any{job.Job, job.Target, string(job.Status), outcome(job), job.Attempt}
		if p.brief() {
			values = append(values, p.clock(since(job)))
		} else {
			values = append(values, p.stamp(job.Accepted), p.stamp(job.Running), p.stamp(job.Ended))
		}
		err = states.add(worker, workersJob{worker, job}, toneOfStatus(job.Status, job.Result), values...)
		if err != nil {
			return err
		}
		if !p.terminal {
			progress.at(states.count)
		}
	}
	return states.end(nil)
}

// since is when something last happened to a job: it ended, was about to run, or was claimed.
func since(job history.Job) time.Time {
	for _, at := range []time.Time{job.Ended, job.Running} {
		if !at.IsZero() {
			return at
		}
	}
	return job.Accepted
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

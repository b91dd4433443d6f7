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
	"jobd/net/api"
)

func (p *program) journalState() *ffcli.Command {
	at := timeFlag{p: p}
	since := timeFlag{p: p}
	var status statusFlag
	var q history.AtQuery
	c := p.journalCommand("state", "", "every job's status, now or at a time, by replay", func(ctx context.Context, j *journals, _ []string) error {
		if at.at.After(p.now()) {
			p.note(errors.New("--at is in the future: this is how it stands now"))
		}
		q.At, q.Since, q.Status = at.at, since.at, journal.Status(status)
		if err := j.noteRemoved(ctx, q.Since, time.Time{}); err != nil {
			return err
		}
		all := merge(j, func(s source) iter.Seq2[history.Job, error] { return s.jobs(ctx, q) }, history.Job.Before)
		if q.Last > 0 {
			all = history.Newest(all, q.Last)
		}
		return p.buffered(func() error { return p.printStates(j, all) })
	})
	checkFirst(c, func([]string) error {
		if !at.at.IsZero() && since.at.After(at.at) {
			return wrongUsage("journal state: --since is not before --at")
		}
		return countFrom0("journal state", q.Last)
	})
	c.FlagSet.Var(&at, "at", "as it was at this time: 2026-11-20 14:00, 2h (ago), or unix time in seconds")
	c.FlagSet.Var(&since, "since", "only jobs that came into their status from this time on: they ended, began to run or were claimed")
	c.FlagSet.StringVar(&q.Target, "target", "", "only jobs of this target")
	c.FlagSet.IntVar(&q.Last, "n", 0, "only the last N of them")
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
		values := []any{job.Job, job.Target, string(job.Status), outcome(job) + p.again(job.Again), job.Attempt}
		if p.brief() {
			values = append(values, p.clock(job.Changed()))
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
	return outcomeOf(api.Outcome{Result: job.Result, Code: job.Code, Signal: &job.Signal})
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

// again says when a row comes back; "" where it does not.
func (p *program) again(again *journal.Again) string {
	if again == nil {
		return ""
	}
	return ", again " + p.seconds(again.RunAt)
}

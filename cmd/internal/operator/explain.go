package operator

import (
	"context"
	"slices"
	"time"

	"jobd/cmd/internal/reason"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Job names a job: with the target that its row must have, "" whichever.
type Job struct {
	ID     jobnet.Whole
	Target string
}

// Clock is by what times are told.
type Clock struct {
	Now      time.Time
	Location *time.Location
}

// Explanation is what the workers have told of some jobs.
type Explanation struct {
	Answers  []Answer[api.Explained]
	Verdicts []reason.Verdict // on each of the jobs
	Unprobed error            // why what only the server can tell is not among that
}

// Explain asks all workers about jobs, which one request may be about, and gives the verdict on each.
// Where a verdict needs what only the table's server can tell, one worker that can read the table
// probes it: two that asked at once would take each other for somebody who holds the row.
func Explain(ctx context.Context, d *Daemon, jobs []Job, clock Clock) (*Explanation, error) {
	e := &Explanation{}
	var err error
	if e.Answers, err = All[api.Explained](ctx, d, api.Explain.Name, api.ExplainQuery{IDs: ids(jobs), Output: true}); err != nil {
		return nil, err
	}
	e.served(ctx, d)
	var unsure []Job
	for _, job := range jobs {
		if e.why(d, job, clock).Probe {
			unsure = append(unsure, job)
		}
	}
	e.Unprobed = e.probe(ctx, ids(unsure))
	for _, job := range jobs {
		e.Verdicts = append(e.Verdicts, e.why(d, job, clock))
	}
	return e, nil
}

// ids are the jobs' ids, each once.
func ids(jobs []Job) (list []jobnet.Whole) {
	for _, job := range jobs {
		if !slices.Contains(list, job.ID) {
			list = append(list, job.ID)
		}
	}
	return list
}

// why is the verdict on a job.
func (e *Explanation) why(d *Daemon, job Job, clock Clock) reason.Verdict {
	answers := make([]reason.Answer, len(e.Answers))
	for i, a := range e.Answers {
		answers[i] = reason.Answer{Name: a.From.Name, Explained: a.Value, Err: a.Err}
	}
	return reason.Of(reason.Question{Job: int64(job.ID), Target: job.Target, Master: d.Master, Now: clock.Now, Location: clock.Location}, answers)
}

// probe asks one worker what only the server can tell of some jobs. Where that fails, the jobs are
// explained without.
func (e *Explanation) probe(ctx context.Context, ids []jobnet.Whole) error {
	at := slices.IndexFunc(e.Answers, readsTable)
	if at < 0 || len(ids) == 0 {
		return nil
	}
	one := &e.Answers[at]
	var answer api.Explained
	if err := one.From.Ask(ctx, api.Explain.Name, api.ExplainQuery{IDs: ids, Probe: true}, &answer); err != nil {
		return err
	}
	for _, probed := range answer.Jobs {
		for i := range one.Value.Jobs {
			if job := &one.Value.Jobs[i]; job.Job == probed.Job {
				if probed.Row != nil && job.Row != nil { // it was read without its output
					probed.Row.Stdout, probed.Row.Stderr = job.Row.Stdout, job.Row.Stderr
				}
				*job = probed
			}
		}
	}
	return nil
}

// served notes which targets those serve who have told nothing, as their master knows it.
func (e *Explanation) served(ctx context.Context, d *Daemon) {
	if Silent(e.Answers) == nil {
		return
	}
	workers, err := d.Workers(ctx)
	if err != nil {
		return // then it is not known
	}
	for i := range e.Answers {
		for _, w := range workers {
			if a := &e.Answers[i]; a.Err != nil && a.From.Address == w.Address {
				a.Value.Targets = w.Targets
			}
		}
	}
}

// readsTable tells whether a worker could read the table.
func readsTable(a Answer[api.Explained]) bool { return a.Err == nil && a.Value.Table == "" }

// Read tells whether anybody could read the table.
func (e *Explanation) Read() bool { return slices.ContainsFunc(e.Answers, readsTable) }

// Row is the row of the one job that was asked about, as the first worker has it that could read it.
func (e *Explanation) Row() *api.JobRow {
	for _, a := range e.Answers {
		if len(a.Value.Jobs) == 1 && a.Value.Jobs[0].Row != nil {
			return a.Value.Jobs[0].Row
		}
	}
	return nil
}

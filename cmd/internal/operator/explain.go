package operator

import (
	"context"
	"iter"
	"slices"

	"jobd/cmd/internal/reason"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Job names a job: with the target that its row must have, "" whichever.
type Job struct {
	ID     jobnet.Whole
	Target string
}

// explanation is what the workers have told of some jobs.
type explanation struct {
	answers  []Answer[api.Explained]
	verdicts []reason.Verdict // on each of the jobs
}

// Why gives the verdicts on jobs, in their order. note is told which workers did not answer.
func Why(ctx context.Context, d *Daemon, jobs []Job, clock Clock, note func(error)) iter.Seq2[reason.Verdict, error] {
	return func(yield func(reason.Verdict, error) bool) {
		silent := note
		for some := range slices.Chunk(jobs, api.MostExplained) {
			e, err := explain(ctx, d, some, clock, note)
			if err != nil {
				yield(reason.Verdict{}, err)
				return
			}
			noteSilent(e.answers, silent)
			silent = func(error) {} // they were told once
			for _, verdict := range e.verdicts {
				if !yield(verdict, nil) {
					return
				}
			}
		}
	}
}

// noteSilent tells of the workers that did not answer: the others' answers count.
func noteSilent[A any](all []Answer[A], note func(error)) {
	for _, one := range all {
		if one.Err != nil {
			note(one.From.Named(one.Err))
		}
	}
}

// explain asks all workers about jobs, which one request may be about, and gives the verdict on each.
// Where a verdict needs what only the table's server can tell, one worker that can read the table
// probes it: two that asked at once would take each other for somebody who holds the row. note is told
// where it could not.
func explain(ctx context.Context, d *Daemon, jobs []Job, clock Clock, note func(error)) (*explanation, error) {
	e := &explanation{}
	var err error
	if e.answers, err = All[api.Explained](ctx, d, api.Explain.Name, api.ExplainQuery{IDs: ids(jobs), Output: true}); err != nil {
		return nil, err
	}
	e.served(ctx, d)
	var unsure []Job
	for _, job := range jobs {
		if e.why(d, job, clock).Probe {
			unsure = append(unsure, job)
		}
	}
	if err := e.probe(ctx, ids(unsure)); err != nil {
		note(err)
	}
	for _, job := range jobs {
		e.verdicts = append(e.verdicts, e.why(d, job, clock))
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
func (e *explanation) why(d *Daemon, job Job, clock Clock) reason.Verdict {
	answers := make([]reason.Answer, len(e.answers))
	for i, a := range e.answers {
		answers[i] = reason.Answer{Name: a.From.Name, Explained: a.Value, Err: a.Err}
	}
	return reason.Of(reason.Question{Job: int64(job.ID), Target: job.Target, Master: d.Master, Now: clock.Now, Location: clock.Location}, answers)
}

// probe asks one worker what only the server can tell of some jobs. Where that fails, the jobs are
// explained without.
func (e *explanation) probe(ctx context.Context, ids []jobnet.Whole) error {
	at := slices.IndexFunc(e.answers, readsTable)
	if at < 0 || len(ids) == 0 {
		return nil
	}
	one := &e.answers[at]
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
func (e *explanation) served(ctx context.Context, d *Daemon) {
	if Silent(e.answers) == nil {
		return
	}
	workers, err := d.Workers(ctx)
	if err != nil {
		return // then it is not known
	}
	for i := range e.answers {
		for _, w := range workers {
			if a := &e.answers[i]; a.Err != nil && a.From.Address == w.Address {
				a.Value.Targets = w.Targets
			}
		}
	}
}

// readsTable tells whether a worker could read the table.
func readsTable(a Answer[api.Explained]) bool { return a.Err == nil && a.Value.Table == "" }

// read tells whether anybody could read the table.
func (e *explanation) read() bool { return slices.ContainsFunc(e.answers, readsTable) }

// row is the row of the one job that was asked about, as the first worker has it that could read it.
func (e *explanation) row() *api.JobRow {
	for _, a := range e.answers {
		if len(a.Value.Jobs) == 1 && a.Value.Jobs[0].Row != nil {
			return a.Value.Jobs[0].Row
		}
	}
	return nil
}

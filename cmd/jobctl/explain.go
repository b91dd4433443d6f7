package main

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"

	"jobd/cmd/internal/reason"
	jobnet "jobd/net"
	"jobd/net/api"
)

// explained is what the workers have told of some jobs.
type explained struct {
	answers []told[api.Explained]
}

// explain asks all workers about jobs.
func explain(ctx context.Context, c *client, jobs []jobRef, probe bool) (explained, error) {
	query := api.ExplainQuery{Output: true, Probe: probe}
	for _, job := range jobs {
		if !slices.Contains(query.IDs, job.id) {
			query.IDs = append(query.IDs, job.id)
		}
	}
	answers, err := askFleet[api.Explained](ctx, c, api.Explain.Name, query)
	return explained{answers}, err
}

// why is the verdict on a job.
func (e explained) why(p *program, job jobRef) reason.Verdict {
	answers := make([]reason.Answer, len(e.answers))
	for i, a := range e.answers {
		answers[i] = reason.Answer{Name: a.from.name, Explained: a.answer, Err: a.err}
	}
	return reason.Of(reason.Question{Job: int64(job.id), Target: job.target, Master: p.config.master, Now: p.now(), Location: p.location}, answers)
}

// probe asks one worker, which can read the table, what only the server can tell of some jobs: two
// that asked at once would take each other for somebody who holds the row. Where that fails, the
// jobs are explained without.
func (e explained) probe(ctx context.Context, ids []jobnet.Whole) error {
	at := slices.IndexFunc(e.answers, func(a told[api.Explained]) bool { return a.err == nil && a.answer.Table == "" })
	if at < 0 || len(ids) == 0 {
		return nil
	}
	one := &e.answers[at]
	var answer api.Explained
	if err := one.from.ask(ctx, api.Explain.Name, fieldsOf(api.ExplainQuery{IDs: ids, Probe: true}), &answer); err != nil {
		return err
	}
	for _, probed := range answer.Jobs {
		for i := range one.answer.Jobs {
			if job := &one.answer.Jobs[i]; job.Job == probed.Job {
				probed.Row = withOutput(probed.Row, job.Row)
				*job = probed
			}
		}
	}
	return nil
}

// served notes which targets those serve who have told nothing, as their master knows it.
func (e explained) served(ctx context.Context, c *client) {
	silent := func(a told[api.Explained]) bool { return a.err != nil }
	if !c.master || !slices.ContainsFunc(e.answers, silent) {
		return
	}
	var status masterStatus
	if c.askInto(ctx, api.MasterStatus.Name, api.Polling{}, &status) != nil {
		return // then it is not known
	}
	for i := range e.answers {
		for _, w := range status.Workers {
			if a := &e.answers[i]; a.err != nil && a.from.address == net.JoinHostPort(w.RemoteAddr, strconv.Itoa(w.RemotePort)) {
				a.answer.Targets = append([]string{}, w.Targets...)
			}
		}
	}
}

// withOutput is a row that was read without its output, with what was read of that before.
func withOutput(row, before *api.JobRow) *api.JobRow {
	if row != nil && before != nil {
		row.Stdout, row.Stderr = before.Stdout, before.Stderr
	}
	return row
}

// verdicts gives the verdict on each of some jobs, which one request may be about. Workers that
// did not answer are told of.
func (p *program) verdicts(ctx context.Context, c *client, jobs []jobRef) (explained, []reason.Verdict, error) {
	e, err := explain(ctx, c, jobs, false)
	if err != nil {
		return e, nil, err
	}
	e.served(ctx, c)
	var ids []jobnet.Whole
	for _, job := range jobs {
		if e.why(p, job).Probe && !slices.Contains(ids, job.id) {
			ids = append(ids, job.id)
		}
	}
	if err := e.probe(ctx, ids); err != nil {
		p.note(err)
	}
	verdicts := make([]reason.Verdict, len(jobs))
	for i, job := range jobs {
		verdicts[i] = e.why(p, job)
	}
	return e, verdicts, nil
}

// noteSilent tells of the workers that did not answer, and gives nil: the others' answers count.
func (e explained) noteSilent(p *program) {
	if err := silent(e.answers); err != nil {
		for _, one := range unjoined(err) {
			p.note(one)
		}
	}
}

// unjoined takes errors apart that errors.Join has put together.
func unjoined(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

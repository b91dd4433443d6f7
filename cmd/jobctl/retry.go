package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

func (p *program) retry() *cmd {
	r := retrying{program: p, wish: failedWish{since: timeFlag{p: p}, most: 0, code: -1}}
	c := command("retry ID… | T:ID… | --failed [--since TIME] [--target T] [--code N]", "set jobs that are done or ignored back to waiting or manual, to be run once more", func(ctx context.Context, args []string) (err error) {
		switch {
		case r.failed && len(args) > 0:
			return wrongUsage("retry: IDs and --failed are not allowed together")
		case r.failed:
		case r.wish.code >= 0 || r.wish.target != "" || !r.wish.since.at.IsZero():
			return wrongUsage("retry: --since, --target and --code are for --failed")
		default:
			if r.jobs, err = jobRefs("retry", args, 0); err != nil {
				return err
			}
		}
		return p.read(ctx, nil, r.run)
	})
	r.wish.flags(c)
	c.FlagSet.BoolVar(&r.failed, "failed", false, "those that failed and were not retried since, as failed lists them")
	c.FlagSet.Var(countFlag{n: &r.wish.code, most: 255}, "code", "with --failed: only those with this exit code")
	c.FlagSet.BoolVar(&r.manual, "manual", false, "set them back to manual, whatever they were")
	c.FlagSet.BoolVar(&r.dry, "dry-run", false, "only tell which they are")
	c.FlagSet.BoolVar(&r.yes, "yes", false, "do not ask")
	return c
}

// retrying is one run of retry.
type retrying struct {
	*program
	jobs             []operator.Job // none: those that failed
	wish             failedWish
	failed           bool
	manual, dry, yes bool

	refused map[jobnet.Whole]string // why jobs that were named can't be set back
	errs    []error
}

// again is a job that is to be set back.
type again struct {
	id       int64
	finished int64            // the row's time_finished: another end is not meant
	ignored  bool             // it was not run
	from     *operator.Worker // that ran it last; nil: no journal that answers knows
	target   string
	how      string // it ended, in a word or two
}

// run finds the jobs, asks, and has workers set their rows back: of each the one that ran it last,
// so that its journal goes on to agree with the row; else any.
func (r *retrying) run(ctx context.Context, j *operator.Journals) error {
	r.refused = map[jobnet.Whole]string{}
	list, err := r.find(ctx, j)
	if err != nil {
		return err
	}
	switch {
	case len(list) == 0 && len(r.errs) > 0 && r.json() && !r.dry:
		return errors.Join(r.tell(nil, api.RetriedRows{}), joined(r.errs))
	case len(list) == 0 && len(r.errs) > 0:
		return joined(r.errs)
	case len(list) == 0:
		if r.failed {
			r.noteUnserved(ctx, r.wish.target)
		}
		return r.sayNone("no job is to be set back")
	case r.dry:
		return r.tellAll(list)
	case r.failed && !r.yes:
		if err := r.confirm(ctx, r.question(list)); err != nil {
			return err
		}
	}
	return r.setBack(ctx, j, list)
}

// find finds the jobs that are to be set back, and notes why others are not.
func (r *retrying) find(ctx context.Context, j *operator.Journals) ([]again, error) {
	if !r.failed {
		return r.named(ctx, j)
	}
	found, err := r.collect(ctx, j, r.wish.grouped(r.now()))
	if err == nil {
		err = found.unchecked
	}
	if err != nil {
		return nil, err
	}
	var list []again
	for _, f := range found.all {
		if f.row == "" { // what was deleted can't be run, and what comes back is not to be set back
			list = append(list, again{id: f.job, finished: f.ended.Unix(), from: f.from, target: f.target, how: f.how()})
		}
	}
	return list, nil
}

// question says what is to be done.
func (r *retrying) question(list []again) string {
	counts := map[string]int{}
	for _, one := range list {
		counts[one.target]++
	}
	targets := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
	const few = 5
	var parts []string
	for _, target := range targets[:min(len(targets), few)] {
		parts = append(parts, fmt.Sprintf("%s %d", clean(target), counts[target]))
	}
	if more := len(targets) - few; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more targets", more))
	}
	return fmt.Sprintf("%s that failed since %s (%s) would be run once more.", jobsText(len(list)),
		r.clock(r.wish.grouped(r.now()).since.at), strings.Join(parts, ", "))
}

// jobsText is how many jobs.
func jobsText(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

// tellAll tells which jobs would be set back.
func (r *retrying) tellAll(list []again) error {
	found := r.report(true, "", "JOB", "TARGET", "HOW IT ENDED")
	found.table.elastic = "TARGET"
	for _, one := range list {
		form := struct {
			Worker string       `json:"worker,omitempty"`
			Job    jobnet.Whole `json:"job"`
			Target string       `json:"target"`
			How    string       `json:"how"`
		}{one.worker(), jobnet.Whole(one.id), one.target, one.how}
		if err := found.add(one.worker(), form, plain, one.id, one.target, one.how); err != nil {
			return found.end(err)
		}
	}
	if err := found.end(joined(r.errs)); err != nil {
		return err
	}
	return r.sayNone(jobsText(len(list)) + " would be set back")
}

// worker is the name of the one that ran the job last; "" where that is not known.
func (a again) worker() string {
	if a.from == nil {
		return ""
	}
	return a.from.Name
}

// named looks at the rows that were named, and finds the workers that ran them last.
func (r *retrying) named(ctx context.Context, j *operator.Journals) (list []again, err error) {
	rows, wrong, err := rowsOf(ctx, j, r.jobs)
	if err != nil {
		return nil, err
	}
	for _, job := range r.jobs {
		row, there := rows[job.ID]
		switch {
		case !there:
			r.refuse(job.ID, wrong[job.ID])
		case row.Status == journal.RowDelayed:
			r.refuse(job.ID, "status = delayed: it comes back by itself when it is due; run-now has it run at once")
		case row.Status != journal.RowDone && row.Status != journal.RowIgnored:
			r.refuse(job.ID, fmt.Sprintf("status = %s: only what is done or ignored is retried", clean(row.Status)))
		default:
			list = append(list, again{id: int64(job.ID), finished: row.Finished, target: row.Target, how: rowEnd(row), ignored: row.Status == journal.RowIgnored})
		}
	}
	return list, r.whoRan(ctx, j, list)
}

// refuse notes why a job can't be set back.
func (r *retrying) refuse(id jobnet.Whole, reason string) {
	r.refused[id] = reason
	r.errs = append(r.errs, jobError(id, reason))
}

// fewJobs is up to how many jobs are looked for one by one, by their index.
const fewJobs = 50

// ends are the kinds of event that end a job, or set it back; those of notRun end one that is not to
// be run.
var (
	ends   = []journal.Kind{journal.KindDone, journal.KindIgnored, journal.KindCancelled, journal.KindRetried}
	notRun = []journal.Kind{journal.KindIgnored, journal.KindCancelled, journal.KindRetried}
)

// whoRan finds the workers whose journals know the newest end of jobs.
func (r *retrying) whoRan(ctx context.Context, j *operator.Journals, list []again) error {
	if len(j.Workers) == 1 || len(list) == 0 {
		for i := range list {
			list[i].from = j.Workers[0]
		}
		return nil
	}
	place, newest := make(map[int64]*again, len(list)), make(map[int64]time.Time)
	queries := make([]history.Query, 0, len(list))
	var first, last int64 // when those that are done ended
	ignored := false      // there are others: their rows do not tell when
	for i := range list {
		one := &list[i]
		place[one.id] = one
		queries = append(queries, history.Query{Job: one.id, Kinds: ends, Last: 1})
		if one.ignored {
			ignored = true
			continue
		}
		if last == 0 {
			first = one.finished
		}
		first, last = min(first, one.finished), max(last, one.finished)
	}
	if len(list) > fewJobs {
		const skew = 2 * time.Second // an end is stamped before its event, if at all
		queries = []history.Query{{Kinds: ends, Since: time.Unix(max(first, 1), 0), Until: time.Unix(last+1, 0).Add(skew)}}
		if ignored {
			queries = append(queries, history.Query{Kinds: notRun})
		}
	}
	for _, query := range queries {
		for e, err := range j.Events(ctx, query) {
			if err != nil {
				return err
			}
			one := place[e.Item.Job]
			if one != nil && !e.Item.Time.Before(newest[one.id]) {
				one.from, newest[one.id] = e.Source.Link(), e.Item.Time
			}
		}
	}
	return nil
}

// retryOnce is how many rows one request sets back: an answer is to come soon, and to be told.
const retryOnce = 1000

// setBack has workers set rows back, by so many in each request.
func (r *retrying) setBack(ctx context.Context, j *operator.Journals, list []again) error {
	byWorker := map[*operator.Worker][]again{}
	var order []*operator.Worker
	for _, one := range list {
		if byWorker[one.from] == nil {
			order = append(order, one.from)
		}
		byWorker[one.from] = append(byWorker[one.from], one)
	}
	all := api.RetriedRows{Jobs: map[jobnet.Whole]string{}, Errors: map[jobnet.Whole]string{}}
	g := r.progress(fmt.Sprintf("of %d jobs set back", len(list)))
	done := 0
	for _, worker := range order {
		for some := range slices.Chunk(byWorker[worker], retryOnce) {
			answer, err := r.askWorker(ctx, j, worker, some)
			if err != nil {
				r.errs = append(r.errs, err)
				if ctx.Err() != nil {
					g.end()
					return errors.Join(r.tell(list, all), joined(r.errs))
				}
				continue
			}
			maps.Copy(all.Jobs, answer.Jobs)
			maps.Copy(all.Errors, answer.Errors)
			done += len(some)
			g.at(uint64(done))
		}
	}
	g.end()
	for _, id := range slices.Sorted(maps.Keys(all.Errors)) {
		r.errs = append(r.errs, jobError(id, all.Errors[id]))
	}
	return errors.Join(r.tell(list, all), joined(r.errs))
}

// askWorker asks a worker to set rows back, and, where that one can't, the others.
func (r *retrying) askWorker(ctx context.Context, j *operator.Journals, worker *operator.Worker, some []again) (answer api.RetriedRows, err error) {
	query := api.RetryRows{Finished: map[jobnet.Whole]int64{}}
	for _, one := range some {
		id := jobnet.Whole(one.id)
		query.IDs, query.Finished[id] = append(query.IDs, id), one.finished
		if r.manual {
			if query.To == nil {
				query.To = map[jobnet.Whole]string{}
			}
			query.To[id] = journal.RowManual
		}
	}
	answer, by, err := operator.First[api.RetriedRows](ctx, operator.InTurn(worker, j.Workers), api.Retry.Name, query, true)
	switch {
	case err == nil:
		return answer, nil
	case by == nil:
		return answer, errors.Join(err, fmt.Errorf("%s (the first: %d): no worker can set them back", jobsText(len(some)), some[0].id))
	}
	return answer, fmt.Errorf("%w; whether %s (the first: %d) were set back is not known: ask again, which sets back what was not", err, jobsText(len(some)), some[0].id)
}

// tell tells what was set back: of many how many, of few each.
func (r *retrying) tell(list []again, all api.RetriedRows) error {
	if r.json() {
		for id, reason := range r.refused {
			if all.Errors == nil {
				all.Errors = map[jobnet.Whole]string{}
			}
			all.Errors[id] = reason
		}
		return r.printJSON(retriedForm{orNone(all.Jobs), orNone(all.Errors)})
	}
	found := r.report(true, "", "JOB", "TARGET", "SET BACK TO")
	found.table.elastic = "TARGET"
	for _, one := range list {
		if to, set := all.Jobs[jobnet.Whole(one.id)]; set {
			if err := found.add(one.worker(), nil, plain, one.id, one.target, to); err != nil {
				return found.end(err)
			}
		}
	}
	return found.end(nil)
}

// retriedForm is what became of jobs, as JSON.
type retriedForm struct {
	Jobs   map[jobnet.Whole]string `json:"jobs"`
	Errors map[jobnet.Whole]string `json:"errors"`
}

// orNone has a map printed where there is none.
func orNone(m map[jobnet.Whole]string) map[jobnet.Whole]string {
	if m == nil {
		return map[jobnet.Whole]string{}
	}
	return m
}

// mostErrors is how many errors are told one by one.
const mostErrors = 100

// joined is errors as one, of many the first.
func joined(errs []error) error {
	if more := len(errs) - mostErrors; more > 0 {
		errs = append(slices.Clone(errs[:mostErrors]), fmt.Errorf("and %d more", more))
	}
	return exit.Join(errs...)
}

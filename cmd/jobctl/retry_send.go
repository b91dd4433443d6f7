package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

// retryOnce is how many rows one request sets back: an answer is to come soon, and to be told.
const retryOnce = 1000

// setBack has workers set rows back, by so many in each request.
func (r *retrying) setBack(ctx context.Context, j *journals, list []again) error {
	byWorker := map[*remote][]again{}
	var order []*remote
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
		why := strings.TrimPrefix(all.Errors[id], fmt.Sprintf("job %d ", id))
		r.errs = append(r.errs, fmt.Errorf("job %d: %s", id, clean(why)))
	}
	return errors.Join(r.tell(list, all), joined(r.errs))
}

// askWorker asks a worker to set rows back, and, where that one can't, the others.
func (r *retrying) askWorker(ctx context.Context, j *journals, worker *remote, some []again) (answer api.RetriedRows, err error) {
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
	var failed []error
	for _, one := range inTurn(worker, j.remotes) {
		err := one.ask(ctx, api.Retry.Name, fieldsOf(query), &answer)
		if err == nil {
			return answer, nil
		}
		if jobnet.CodeOf(err) == jobnet.CodeUnknown {
			failed = append(failed, named(one, fmt.Errorf("it can't set rows back, because it is an older jobd, or the original")))
			continue // nothing was done
		}
		return answer, fmt.Errorf("%w; whether %s (the first: %d) were set back is not known: ask again, which sets back what was not", named(one, err), jobsText(len(some)), some[0].id)
	}
	return answer, errors.Join(append(failed, fmt.Errorf("%s (the first: %d): no worker can set them back", jobsText(len(some)), some[0].id))...)
}

// inTurn is the workers in the order in which they are asked: the one that ran the job first.
func inTurn(first *remote, all []*remote) []*remote {
	if first == nil {
		return all
	}
	others := slices.DeleteFunc(slices.Clone(all), func(r *remote) bool { return r == first })
	return append([]*remote{first}, others...)
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
	return errors.Join(errs...)
}

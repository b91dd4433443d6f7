package main

import (
	"context"
	"fmt"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
	jobnet "jobd/net"
)

// named looks at the rows that were named, and finds the workers that ran them last.
func (r *retrying) named(ctx context.Context, j *journals) (list []again, err error) {
	ids := make([]int64, len(r.jobs))
	for i, job := range r.jobs {
		ids[i] = int64(job.id)
	}
	rows, err := j.rows(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, job := range r.jobs {
		row, there := rows[int64(job.id)]
		switch {
		case !there:
			r.refuse(job.id, "the table has no such row")
		case job.target != "" && row.Target != job.target:
			r.refuse(job.id, fmt.Sprintf("its target is '%s', not '%s'", clean(row.Target), clean(job.target)))
		case row.Status == journal.RowDelayed:
			r.refuse(job.id, "status = delayed: it comes back by itself when it is due; run-now has it run at once")
		case row.Status != journal.RowDone && row.Status != journal.RowIgnored:
			r.refuse(job.id, fmt.Sprintf("status = %s: only what is done or ignored is retried", clean(row.Status)))
		default:
			list = append(list, again{id: int64(job.id), finished: row.Finished, target: row.Target, how: rowEnd(row), ignored: row.Status == journal.RowIgnored})
		}
	}
	return list, r.whoRan(ctx, j, list)
}

// refuse notes why a job can't be set back.
func (r *retrying) refuse(id jobnet.Whole, reason string) {
	r.refused[id] = reason
	r.errs = append(r.errs, fmt.Errorf("job %d: %s", id, reason))
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
func (r *retrying) whoRan(ctx context.Context, j *journals, list []again) error {
	if len(j.remotes) == 1 || len(list) == 0 {
		for i := range list {
			list[i].from = j.remotes[0]
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
		for e, err := range j.events(ctx, query) {
			if err != nil {
				return err
			}
			one := place[e.item.Job]
			if one != nil && !e.item.Time.Before(newest[one.id]) {
				one.from, newest[one.id] = e.source.link(), e.item.Time
			}
		}
	}
	return nil
}

package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/reason"
	"jobd/cmd/internal/screen"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Again is a job that is to be set back.
type Again struct {
	Worker string       `json:"worker,omitempty"` // that ran it last; "" where no journal that answers knows
	Job    jobnet.Whole `json:"job"`
	Target string       `json:"target"`
	How    string       `json:"how"` // it ended, in a word or two

	finished int64 // the row's time_finished: another end is not meant
	from     *Worker
}

// Key names the end that is meant: of a job that was run once more since it is another one.
func (a Again) Key() string { return fmt.Sprintf("%d-%d", a.Job, a.finished) }

// Retrying has jobs that have ended set back, to be run once more: first the jobs are found, and may be
// shown, then their rows are set back.
type Retrying struct {
	Journals *Journals
	Manual   bool // set back to manual, whatever they were

	Done    map[jobnet.Whole]string // what rows were set back to; neither map is nil
	Refused map[jobnet.Whole]string // why others were not
	Errs    []error                 // the same as errors, and what else went wrong
}

// Failed finds the jobs that failed.
func (r *Retrying) Failed(found Failures) (list []Again, err error) {
	if found.Unchecked != nil {
		return nil, found.Unchecked
	}
	for _, f := range found.All {
		if f.Row == "" { // what was deleted can't be run, and what comes back is not to be set back
			list = append(list, again(f.from, Again{Job: f.Job, Target: f.Target, How: f.how(), finished: f.At.Unix()}))
		}
	}
	return list, nil
}

// again notes who ran a job last.
func again(from *Worker, one Again) Again {
	if one.from = from; from != nil {
		one.Worker = from.Name
	}
	return one
}

// Named looks at the rows of jobs that were named, and finds the workers that ran them last. Why others
// are not to be set back is noted.
func (r *Retrying) Named(ctx context.Context, jobs []Job) (list []Again, err error) {
	rows, wrong, err := RowsOf(ctx, r.Journals, jobs)
	if err != nil {
		return nil, err
	}
	for _, job := range jobs {
		row, there := rows[job.ID]
		switch {
		case !there:
			r.refuse(job.ID, wrong[job.ID])
		case row.Status == journal.RowDelayed:
			r.refuse(job.ID, "status = delayed: it comes back by itself when it is due; run-now has it run at once")
		case row.Status != journal.RowDone && row.Status != journal.RowIgnored:
			r.refuse(job.ID, fmt.Sprintf("status = %s: only done or ignored rows are retried", screen.Clean(row.Status)))
		default:
			list = append(list, Again{Job: job.ID, Target: row.Target, How: RowEnd(row), finished: row.Finished})
		}
	}
	return list, r.whoRan(ctx, list)
}

// refuse notes why a job can't be set back.
func (r *Retrying) refuse(id jobnet.Whole, reason string) {
	r.Refused[id] = reason
	r.Errs = append(r.Errs, JobError(id, reason))
}

// ends are the kinds of event that end a job, or set it back.
var ends = []journal.Kind{journal.KindDone, journal.KindIgnored, journal.KindCancelled, journal.KindRetried}

// whoRan finds the workers whose journals know the newest end of jobs.
func (r *Retrying) whoRan(ctx context.Context, list []Again) error {
	if len(r.Journals.Workers) == 1 || len(list) == 0 {
		for i := range list {
			list[i] = again(r.Journals.Workers[0], list[i])
		}
		return nil
	}
	for i := range list {
		query := history.Query{Job: list[i].Job, Kinds: ends, Last: 1} // of each job, by its index
		for e, err := range r.Journals.Events(ctx, query) {
			if err != nil {
				return err
			}
			list[i] = again(e.Source.Link(), list[i])
		}
	}
	return nil
}

// retryOnce is how many rows one request sets back: an answer is to come soon, and to be told.
const retryOnce = 1000

// SetBack has workers set rows back: of each job the one that ran it last, so that its journal goes on
// to agree with the row; else any.
func (r *Retrying) SetBack(ctx context.Context, list []Again) {
	byWorker := map[*Worker][]Again{}
	var order []*Worker
	for _, one := range list {
		if byWorker[one.from] == nil {
			order = append(order, one.from)
		}
		byWorker[one.from] = append(byWorker[one.from], one)
	}
	refused := map[jobnet.Whole]string{}
	for _, worker := range order {
		for some := range slices.Chunk(byWorker[worker], retryOnce) {
			answer, err := r.askWorker(ctx, worker, some)
			if err != nil {
				if r.Errs = append(r.Errs, err); ctx.Err() != nil {
					return
				}
				continue
			}
			maps.Copy(r.Done, answer.Jobs)
			maps.Copy(refused, answer.Errors)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(refused)) {
		r.refuse(id, refused[id])
	}
}

// askWorker asks a worker to set rows back, and, where that one can't, the others.
func (r *Retrying) askWorker(ctx context.Context, worker *Worker, some []Again) (answer api.RetriedRows, err error) {
	query := api.RetryRows{Finished: map[jobnet.Whole]int64{}}
	for _, one := range some {
		query.IDs, query.Finished[one.Job] = append(query.IDs, one.Job), one.finished
		if r.Manual {
			if query.To == nil {
				query.To = map[jobnet.Whole]string{}
			}
			query.To[one.Job] = journal.RowManual
		}
	}
	answer, by, err := first[api.RetriedRows](ctx, inTurn(worker, r.Journals.Workers), api.Retry.Name, query, true)
	which := fmt.Sprintf("%s (the first: %d)", screen.Count(len(some), "job"), some[0].Job)
	switch {
	case err == nil:
		return answer, nil
	case by == nil:
		return answer, errors.Join(err, fmt.Errorf("%s: no worker can set them back", which))
	}
	return answer, fmt.Errorf("%w; it is not known whether %s were set back: repeat it, it sets back the rest", err, which)
}

// RowsOf reads the rows of jobs that were named, and says of the others why nothing is done about them:
// they have no row, or one of another target than the one that was given.
func RowsOf(ctx context.Context, j *Journals, jobs []Job) (rows map[jobnet.Whole]history.Row, wrong map[jobnet.Whole]string, err error) {
	ids := make([]jobnet.Whole, len(jobs))
	for i, job := range jobs {
		ids[i] = job.ID
	}
	found, err := Rows(ctx, j.Workers, ids)
	if err != nil {
		return nil, nil, err
	}
	rows, wrong = map[jobnet.Whole]history.Row{}, map[jobnet.Whole]string{}
	for _, job := range jobs {
		row, there := found[job.ID]
		switch {
		case !there:
			wrong[job.ID] = reason.NoRow
		case job.Target != "" && row.Target != job.Target:
			wrong[job.ID] = fmt.Sprintf("its target is '%s', not '%s'", row.Target, job.Target)
		default:
			rows[job.ID] = row
		}
	}
	return rows, wrong, nil
}

// RowEnd says how a row ended.
func RowEnd(row history.Row) string {
	if row.Status != journal.RowDone && (row.Plan == nil || row.Result == "") {
		return screen.Clean(row.Status)
	}
	return screen.Clean(reason.Outcome(row.Signal, row.Code, row.Result))
}

// notFound is how workers say that the table does not have a job.
const notFound = "not found"

// JobError is why nothing was done about a job. Some of the daemons' texts name the job themselves.
func JobError(id jobnet.Whole, text string) error {
	told, named := strings.CutPrefix(text, fmt.Sprintf("job %d ", id))
	switch {
	case told == reason.NoRow || told == notFound:
		return exit.With(exit.NoJob, fmt.Errorf("job %d: %s", id, reason.NoRow))
	case named:
		return said(text, "")
	}
	return fmt.Errorf("job %d: %w", id, said(text, ""))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

func (p *program) runNow() *ffcli.Command {
	c := command("run-now", "run-now ID… | T:ID…", "make delayed jobs due now: of one that recurs the next run takes place now, and not at its time", func(ctx context.Context, args []string) error {
		jobs, err := anyJobs("run-now", args, api.MostRunNow)
		if err != nil {
			return err
		}
		return p.read(ctx, nil, func(ctx context.Context, j *journals) error {
			r := hastening{program: p, jobs: jobs, all: api.RanNow{Jobs: map[jobnet.Whole]int64{}, Errors: map[jobnet.Whole]string{}}}
			return r.run(ctx, j)
		})
	})
	c.LongHelp = "  jobctl run-now 4711\n  jobctl --master run-now reports:12 13"
	return c
}

// hastening is one run of run-now.
type hastening struct {
	*program
	jobs []jobRef
	rows map[jobnet.Whole]string // the targets
	all  api.RanNow
	errs []error
}

// run looks at the rows, and has a worker make those due that are delayed.
func (h *hastening) run(ctx context.Context, j *journals) error {
	ids, err := h.delayed(ctx, j)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		if err := h.ask(ctx, j, ids); err != nil {
			h.errs = append(h.errs, err)
		}
	}
	if err := h.tell(); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(h.all.Errors)) {
		why := strings.TrimPrefix(h.all.Errors[id], fmt.Sprintf("job %d ", id))
		h.errs = append(h.errs, fmt.Errorf("job %d: %s", id, clean(why)))
	}
	return joined(h.errs)
}

// delayed gives the jobs that are delayed, as their rows say, and notes why others can't be made due.
func (h *hastening) delayed(ctx context.Context, j *journals) (ids []jobnet.Whole, err error) {
	named := make([]int64, len(h.jobs))
	for i, job := range h.jobs {
		named[i] = int64(job.id)
	}
	rows, err := j.rows(ctx, named)
	if err != nil {
		return nil, err
	}
	h.rows = map[jobnet.Whole]string{}
	for _, job := range h.jobs {
		row, there := rows[int64(job.id)]
		switch {
		case !there:
			h.all.Errors[job.id] = "the table has no such row"
		case job.target != "" && row.Target != job.target:
			h.all.Errors[job.id] = fmt.Sprintf("its target is '%s', not '%s'", row.Target, job.target)
		case row.Status != journal.RowDelayed:
			h.all.Errors[job.id] = notDelayed(row.Status)
		default:
			ids = append(ids, job.id)
			h.rows[job.id] = row.Target
		}
	}
	return ids, nil
}

// notDelayed says why a row that is not delayed is left as it is.
func notDelayed(status string) string {
	switch status {
	case journal.RowWaiting:
		return "it is not delayed: it waits already, and runs as soon as there is a slot"
	case journal.RowAccepted, journal.RowRunning:
		return "it is not delayed: it is " + status + " already"
	case journal.RowManual:
		return "it is not delayed but manual: jobctl run-manual runs it"
	case journal.RowDone, journal.RowIgnored:
		return "it is not delayed but " + status + ": jobctl retry has it run once more"
	}
	return fmt.Sprintf("it is not delayed: its status is %q", status)
}

// ask asks a worker, and, where that one can't, the next.
func (h *hastening) ask(ctx context.Context, j *journals, ids []jobnet.Whole) error {
	var failed []error
	for _, one := range j.remotes {
		var answer api.RanNow
		err := one.ask(ctx, api.RunNow.Name, fieldsOf(api.RunNowRows{IDs: ids}), &answer)
		switch {
		case err == nil:
			maps.Copy(h.all.Jobs, answer.Jobs)
			maps.Copy(h.all.Errors, answer.Errors)
			return nil
		case jobnet.CodeOf(err) == jobnet.CodeUnknown:
			failed = append(failed, named(one, errors.New("it can't make rows due, because it is an older jobd, or the original")))
			continue // nothing was done
		case jobnet.CodeOf(err) == jobnet.CodeRefused:
			failed = append(failed, named(one, err))
			continue // likewise; another worker may have room, or reach the table
		}
		return fmt.Errorf("%w; whether %s (the first: %d) were made due is not known: ask again, which does no harm", named(one, err), jobsText(len(ids)), ids[0])
	}
	return errors.Join(append(failed, fmt.Errorf("no worker has made them due: %s", jobsText(len(ids))))...)
}

// tell tells which rows are due now.
func (h *hastening) tell() error {
	if h.json() {
		return h.printJSON(h.all)
	}
	if len(h.all.Jobs) == 0 {
		return nil
	}
	found := h.report(false, "", "JOB", "TARGET", "WAS DUE")
	found.table.elastic = "TARGET"
	for _, job := range h.jobs {
		if was, did := h.all.Jobs[job.id]; did {
			if err := found.add("", nil, plain, job.id, h.rows[job.id], h.wasDue(was)); err != nil {
				return found.end(err)
			}
		}
	}
	return found.end(nil)
}

// wasDue is when a row was due before.
func (h *hastening) wasDue(at int64) string {
	if at == 0 {
		return "not planned yet"
	}
	return h.seconds(at)
}

package gearman

import (
	"context"
	"errors"
	"fmt"
	"slices"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/net/gearman"
	"jobd/store/sqlite"
)

// queue is what administrators ask about the jobs that are not at their end.
type queue struct{ front *Front }

// Counts implements gearman.Queue. Of a table into which nothing is inserted only what runs here is told.
func (q queue) Counts(ctx context.Context) (counts []gearman.Count, err error) {
	f := q.front
	var amounts []sqlite.Amount
	if f.Table != nil {
		if amounts, err = f.Table.Amounts(ctx); err != nil {
			return nil, err
		}
	}
	for _, name := range f.Worker.TargetNames() {
		counts = append(counts, gearman.Count{Function: name, Running: f.executor.running(name)})
	}
	for _, a := range amounts {
		at := slices.IndexFunc(counts, func(c gearman.Count) bool { return c.Function == a.Target })
		if at < 0 {
			at, counts = len(counts), append(counts, gearman.Count{Function: a.Target})
		}
		c := &counts[at]
		c.Queued[1-max(-1, min(a.Priority, 1))] += a.N
	}
	for i := range counts { // what runs is among them
		c := &counts[i]
		left := c.Running
		for at, n := range c.Queued {
			c.Queued[at] -= min(n, left)
			left -= min(n, left)
		}
	}
	return counts, nil
}

// running is how many jobs of a function workers have.
func (x *executor) running(function string) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range x.runs {
		r.mu.Lock()
		if r.job.Function == function && r.state == sent {
			n++
		}
		r.mu.Unlock()
	}
	return n
}

// Jobs implements gearman.Queue.
func (q queue) Jobs(ctx context.Context, most int) (list []gearman.Listed, err error) {
	f := q.front
	if f.intake == nil {
		return nil, errors.New("jobs of a table on a server are not listed here; jobctl lists them")
	}
	rows, err := f.Table.Live(ctx, most)
	for _, row := range rows {
		f.intake.mu.Lock()
		j := f.intake.jobs[row.ID]
		listed := gearman.Listed{
			Handle: f.handle(row.ID), Function: row.Target, Unique: uniqueOf(row.UniqueKey),
			Background: j == nil || j.background,
		}
		f.intake.mu.Unlock()
		list = append(list, listed)
	}
	return list, err
}

// Cancel implements gearman.Queue. Clients that wait for the job hear that it failed, and nothing more.
func (q queue) Cancel(ctx context.Context, handle string, p *gearman.Peer) (found bool, err error) {
	f := q.front
	id := f.idOf(handle)
	target, err := q.live(ctx, id)
	if err != nil || target == "" || !p.Reaches(target) {
		return false, err
	}
	told, err := f.Worker.Cancel(ctx, jobexec.CancelWish{IDs: []int64{id}, Rows: true, By: p.By()})
	if why := told.Errors[id]; err == nil && why != "" {
		err = errors.New(why)
	}
	if _, elsewhere := told.Elsewhere[id]; err == nil && elsewhere {
		err = fmt.Errorf("job %d is another worker's", id)
	}
	if err == nil && f.intake != nil {
		f.intake.cancelled(id)
	}
	return true, err
}

// live is the target of a row that is not at its end; "": there is no such row.
func (q queue) live(ctx context.Context, id int64) (target string, err error) {
	var status string
	if q.front.intake != nil {
		rows, err := q.front.Table.Submissions(ctx, []int64{id}, nil)
		if err != nil || len(rows) == 0 {
			return "", err
		}
		target, status = rows[0].Target, rows[0].Status
	} else {
		rows, err := q.front.Rows(ctx, []int64{id})
		if err != nil || len(rows) == 0 {
			return "", err
		}
		target, status = rows[0].Target, rows[0].Status
	}
	if status == journal.RowDone || status == journal.RowIgnored {
		return "", nil
	}
	return target, nil
}

// cancelled tells those who wait for a job that it failed: they hear no more of it.
func (in *intake) cancelled(id int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if j := in.jobs[id]; j != nil {
		in.end(j, false, nil)
	}
}

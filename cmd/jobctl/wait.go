package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/journal"
	jobnet "jobd/net"
)

func (p *program) wait() *ffcli.Command {
	c := command("wait", "wait ID… | T:ID…", "wait until jobs are done, whatever attempts that takes; of one that recurs until its run that is under way, or the next, has ended; exit code 1 if one failed or was ignored", func(ctx context.Context, args []string) error {
		jobs, err := jobRefs("wait", args, 0)
		if err != nil {
			return err
		}
		w := jobWait{program: p, jobs: jobs, rows: make(map[int64]history.Row, len(jobs)), first: make(map[int64]history.Row)}
		return w.run(ctx)
	})
	c.LongHelp = "  jobctl wait 4711 4712 --timeout 10m && echo all went well"
	return c
}

// jobWait waits for jobs.
type jobWait struct {
	*program
	jobs  []jobRef
	rows  map[int64]history.Row // of those that are at their end
	first map[int64]history.Row // of those that recur: as they were when their run was first seen
	left  []jobRef              // the others, as they were seen last
	seen  map[int64]string      // their statuses
	met   bool                  // a daemon has answered
	told  bool                  // that nothing is known for now is said
	line  bool                  // how many are left stands on the terminal
}

// How long it takes from one look at the rows to the next: ever longer, up to lastLook.
const (
	firstLook = 200 * time.Millisecond
	lastLook  = 2 * time.Second
)

// run looks at the rows until all are at their end. A daemon that can't be reached, or can't read its
// table, is waited for, also where that is so from the beginning.
func (w *jobWait) run(ctx context.Context) error {
	w.left = w.jobs
	defer w.clear()
	pause := firstLook
	for {
		err := w.linked(ctx, func(ctx context.Context, c *client) error {
			if err := c.expect(ctx); err != nil {
				return err
			}
			j, err := w.remotes(ctx, c)
			for err == nil && len(w.left) > 0 {
				if err = w.look(ctx, j); err == nil && len(w.left) > 0 {
					w.tell("")
					err = w.rest(ctx, &pause)
				}
			}
			return err
		})
		var final *finalError
		switch {
		case errors.As(err, &final):
			return err
		case len(w.left) == 0: // whatever became of the link, or of the time, since
			w.clear()
			return w.end()
		case ctx.Err() != nil:
			return w.late(ctx)
		case isPassword(err) || exit.Code(err) == exit.Usage || errors.Is(err, errWrongDaemon) || jobnet.CodeOf(err) == jobnet.CodeUnknown:
			return err
		}
		w.tell(err.Error())
		if w.rest(ctx, &pause) != nil {
			return w.late(ctx)
		}
	}
}

// finalError is an error that waiting can't mend.
type finalError struct{ error }

// Unwrap gives the cause.
func (e *finalError) Unwrap() error { return e.error }

// look reads the rows of the jobs that are left.
func (w *jobWait) look(ctx context.Context, j *journals) error {
	ids := make([]int64, len(w.left))
	for i, job := range w.left {
		ids[i] = int64(job.id)
	}
	rows, err := j.rows(ctx, ids)
	if err != nil {
		return errors.Join(append(j.failed, err)...)
	}
	w.met = true
	var left []jobRef
	var gone []error
	w.seen = map[int64]string{}
	for _, job := range w.left {
		row, there := rows[int64(job.id)]
		switch {
		case !there:
			gone = append(gone, jobError(job.id, noRow))
		case job.target != "" && row.Target != job.target:
			gone = append(gone, otherTarget(job, row))
		case row.Status == journal.RowDone || row.Status == journal.RowIgnored || w.ran(row):
			w.rows[int64(job.id)] = row
		default:
			left = append(left, job)
			w.seen[int64(job.id)] = w.statusText(row)
		}
	}
	if w.left = left; len(gone) > 0 {
		return &finalError{errors.Join(gone...)}
	}
	return nil
}

// rest waits until the next look.
func (w *jobWait) rest(ctx context.Context, pause *time.Duration) error {
	timer := time.NewTimer(*pause)
	defer timer.Stop()
	*pause = min(*pause*3/2, lastLook)
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tell says on a terminal how many jobs are left, and why nothing is known of them at the moment.
func (w *jobWait) tell(trouble string) {
	if !w.errTerminal {
		if trouble != "" && !w.told {
			w.note(fmt.Errorf("%s; waiting until this is over", inALine(trouble)))
		}
		w.told = trouble != ""
		return
	}
	text := fmt.Sprintf("waiting for %s", ofJobs(len(w.left), len(w.jobs)))
	if trouble != "" {
		text += "; " + inALine(trouble)
	}
	fmt.Fprint(w.err, w.ours("\r")+text+w.ours("\x1b[K"))
	w.line = true
}

// ofJobs is how many jobs, of all that are waited for.
func ofJobs(n, all int) string {
	if all == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d of %d jobs", n, all)
}

// clear removes that.
func (w *jobWait) clear() {
	if w.line {
		fmt.Fprint(w.err, w.ours("\r\x1b[K"))
		w.line = false
	}
}

// late is the error of a run that ends before the jobs do.
func (w *jobWait) late(ctx context.Context) error {
	w.clear()
	first := w.left[0].id
	text := fmt.Sprintf("%s not done: job %d", ofJobs(len(w.left), len(w.jobs)), first)
	if status := w.seen[int64(first)]; status != "" {
		text += " is " + clean(status)
	}
	if more := len(w.left) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	if w.met && errors.Is(ctx.Err(), context.DeadlineExceeded) { // there were answers, but not this one
		return &because{fmt.Errorf("after %v %s", w.config.timeout, text), context.Cause(ctx)}
	}
	return &because{fmt.Errorf("%s: %w", text, context.Cause(ctx)), context.Cause(ctx)}
}

// end prints how the jobs ended.
func (w *jobWait) end() error {
	found := w.report(false, "", "JOB", "STATUS", "RESULT", "EXIT")
	var failed []error
	for _, job := range w.jobs {
		row := w.rows[int64(job.id)]
		tone := good
		if row.Status == journal.RowIgnored || row.Result != "ok" {
			tone = bad
			failed = append(failed, fmt.Errorf("job %d: %s", job.id, rowEnd(row)))
		}
		form := struct {
			Job    jobnet.Whole `json:"job"`
			Status string       `json:"status"`
			Result string       `json:"result,omitempty"`
			Code   *int64       `json:"code,omitempty"`
			Signal string       `json:"signal,omitempty"`
		}{job.id, row.Status, row.Result, row.Code, row.Signal}
		if err := found.add("", form, tone, job.id, row.Status, row.Result, rowExit(row)); err != nil {
			return err
		}
	}
	return errors.Join(found.end(nil), exit.With(1, errors.Join(failed...)))
}

// rowEnd says how a row ended.
func rowEnd(row history.Row) string {
	if row.Status != journal.RowDone && (row.Plan == nil || row.Result == "") {
		return clean(row.Status)
	}
	switch {
	case row.Signal != "":
		return "killed by " + clean(row.Signal)
	case row.Code != nil:
		return fmt.Sprintf("exit code %d", *row.Code)
	}
	return clean(row.Result)
}

// rowExit is the exit code or the signal of a row; "" where it tells none.
func rowExit(row history.Row) string {
	if row.Signal != "" {
		return row.Signal
	}
	if row.Code != nil {
		return fmt.Sprint(*row.Code)
	}
	return ""
}

// ran tells whether the run of a row that recurs is over: the one that was under way when the row was
// first seen, or the next one then. A row between two attempts has not ended its run: its planned
// start is the same, and it counts attempts. The table has whole seconds, and a run that was planned
// anew was none, so a run is over where there is a newer end, or where another one was planned while
// it was under way.
func (w *jobWait) ran(row history.Row) bool {
	id := int64(row.Job)
	if row.Plan == nil || row.Plan.Schedule == "" {
		return false
	}
	first, seen := w.first[id]
	if !seen || first.Plan.PlannedAt == 0 && row.Finished == first.Finished {
		w.first[id] = row // the first run is planned by its claim
		return false
	}
	moved := row.Plan.PlannedAt != first.Plan.PlannedAt
	newer := row.Finished != first.Finished || moved && first.Status != journal.RowDelayed && first.Status != journal.RowWaiting
	if !newer {
		return false
	}
	return moved || row.Status == journal.RowDelayed && row.Plan.Attempts == 0
}

// statusText is what a row's status says of a job that is waited for.
func (w *jobWait) statusText(row history.Row) string {
	if row.Status != journal.RowDelayed || row.Plan == nil || row.Plan.RunAt == 0 {
		return row.Status
	}
	return row.Status + " until " + w.seconds(row.Plan.RunAt)
}

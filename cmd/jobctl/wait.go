package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/journal"
	jobnet "jobd/net"
)

func (p *program) wait() *cmd {
	c := command("wait ID… | T:ID…", "wait until jobs are done, whatever attempts that takes; a recurring job: until its current run, else its next one, has ended; exit code 1 if one failed or was ignored", func(ctx context.Context, args []string) error {
		jobs, err := jobRefs("wait", args, 0)
		if err != nil {
			return err
		}
		w := jobWait{program: p, jobs: jobs, rows: make(map[int64]history.Row, len(jobs)), first: make(map[int64]history.Row)}
		return w.run(ctx)
	})
	return c
}

// jobWait waits for jobs.
type jobWait struct {
	*program
	jobs  []operator.Job
	rows  map[int64]history.Row // of those that are at their end
	first map[int64]history.Row // of those that recur: as they were when their run was first seen
	left  []operator.Job        // the others, as they were seen last
	seen  map[int64]string      // their statuses
	met   bool                  // a daemon has answered
	told  bool                  // it was said that nothing is known for now
	line  bool                  // how many are left stands on the terminal
}

// How long it takes from one look at the rows to the next: ever longer, up to lastLook.
const (
	firstLook = 200 * time.Millisecond
	lastLook  = 2 * time.Second
)

// longer gives the pause that follows a pause.
func longer(pause time.Duration) time.Duration { return min(pause*3/2, lastLook) }

// run looks at the rows until all are at their end. It waits for a daemon that can't be reached, or can't
// read its table, also at the very beginning.
func (w *jobWait) run(ctx context.Context) error {
	w.left = w.jobs
	defer w.clear()
	d := w.daemon()
	pause := firstLook
	var journals *operator.Journals
	lasting := operator.Lasting{Outlives: operator.Awaited, Tell: func(err error) { w.tell(err.Error()) }, Most: lastLook}
	err := lasting.Run(ctx, func() (rest time.Duration, err error) {
		if journals == nil {
			if journals, err = operator.FindJournals(ctx, d, w.note); err != nil {
				return 0, err
			}
		}
		if err := w.look(ctx, journals); err != nil {
			journals = nil // who can be asked may be others by now
			return 0, err
		}
		if len(w.left) == 0 {
			return -1, nil
		}
		w.tell("")
		pause = longer(pause)
		return pause, nil
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return w.late(ctx)
	case err != nil:
		return err
	}
	w.clear()
	return w.end()
}

// look reads the rows of the jobs that are left.
func (w *jobWait) look(ctx context.Context, j *operator.Journals) error {
	rows, wrong, err := rowsOf(ctx, j, w.left)
	if err != nil {
		return errors.Join(append(j.Failed, err)...)
	}
	w.met = true
	gone := whyNot(w.left, wrong)
	var left []operator.Job
	w.seen = map[int64]string{}
	for _, job := range w.left {
		row, there := rows[job.ID]
		switch {
		case !there:
		case row.Status == journal.RowDone || row.Status == journal.RowIgnored || w.ran(row):
			w.rows[int64(job.ID)] = row
		default:
			left = append(left, job)
			w.seen[int64(job.ID)] = w.statusText(row)
		}
	}
	if w.left = left; len(gone) > 0 {
		return exit.With(exit.NoJob, errors.Join(gone...))
	}
	return nil
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

// clear removes the line that tell has written.
func (w *jobWait) clear() {
	if w.line {
		fmt.Fprint(w.err, w.ours("\r\x1b[K"))
		w.line = false
	}
}

// late is the error of a wait that ends before the jobs do.
func (w *jobWait) late(ctx context.Context) error {
	w.clear()
	first := w.left[0].ID
	text := fmt.Sprintf("%s not done: job %d", ofJobs(len(w.left), len(w.jobs)), first)
	if status := w.seen[int64(first)]; status != "" {
		text += " is " + clean(status)
	}
	if more := len(w.left) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	if w.met && errors.Is(ctx.Err(), context.DeadlineExceeded) { // there were answers, but not this one
		return exit.Because(fmt.Errorf("after %v %s", w.config.timeout, text), context.Cause(ctx))
	}
	return exit.Because(fmt.Errorf("%s: %w", text, context.Cause(ctx)), context.Cause(ctx))
}

// end prints how the jobs ended.
func (w *jobWait) end() error {
	found := w.report(false, "", "JOB", "STATUS", "RESULT", "EXIT")
	var failed []error
	for _, job := range w.jobs {
		row := w.rows[int64(job.ID)]
		tone := good
		if row.Status == journal.RowIgnored || row.Result != "ok" {
			tone = bad
			failed = append(failed, fmt.Errorf("job %d: %s", job.ID, rowEnd(row)))
		}
		form := struct {
			Job    jobnet.Whole `json:"job"`
			Status string       `json:"status"`
			Result string       `json:"result,omitempty"`
			Code   *int64       `json:"code,omitempty"`
			Signal string       `json:"signal,omitempty"`
		}{job.ID, row.Status, row.Result, row.Code, row.Signal}
		if err := found.add("", form, tone, job.ID, row.Status, row.Result, rowExit(row)); err != nil {
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

// ran tells whether a run of a row that recurs is over: the run that was under way when the row was first
// seen, or else the next one. A row between two attempts has not ended its run: its planned start is the
// same, and it counts attempts. The table has whole seconds, so that two ends may look alike, and a run
// that was only planned anew never ran. So a run is over if the row shows a newer end, or if another run
// was planned while this one was under way.
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
	if row.Plan.Paused() {
		return row.Status + ", and its schedule is paused"
	}
	return row.Status + " until " + w.seconds(row.Plan.RunAt)
}

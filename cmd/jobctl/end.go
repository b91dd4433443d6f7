package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

func (p *program) cancel() *cmd {
	w := cancelWish{grace: api.DefaultGrace * time.Millisecond}
	c := command("cancel [--grace D] [--schedule] ID… | T:ID… | --target T [--waiting]", "stop jobs, or keep them from starting: "+
		"jobs that have not started get the status ignored, those that run SIGTERM, and later SIGKILL", func(ctx context.Context, args []string) (err error) {
		var jobs []operator.Job
		switch {
		case w.target == "" && (w.waiting || w.dry || w.yes):
			return wrongUsage("cancel: --waiting, --dry-run and --yes are for --target")
		case w.target != "" && len(args) > 0:
			return wrongUsage("cancel: IDs and --target are not allowed together")
		case w.target != "":
			jobs, err = p.unfinished(ctx, w)
		default:
			jobs, err = jobRefs("cancel", args, api.MostCancelled)
		}
		if err != nil || len(jobs) == 0 {
			return err
		}
		return p.cancelJobs(ctx, jobs, w)
	})
	c.FlagSet.StringVar(&w.target, "target", "", "all jobs of this target that wait or run, after asking")
	c.FlagSet.BoolVar(&w.waiting, "waiting", false, "with --target: only those that have not been started")
	w.consent.flags(c, "with --target: ")
	c.value("grace", fmt.Sprintf("how long a job that runs gets between SIGTERM and SIGKILL, such as 30s; 0: both at once (default: %v)", w.grace),
		graceful(&w.grace))
	c.FlagSet.BoolVar(&w.schedule, "schedule", false,
		"end recurring rows for good; without it only the run under way ends")
	return c
}

// graceful takes the durations that a grace may have.
func graceful(grace *time.Duration) conf.Decode {
	const longest = api.LongestGrace * time.Millisecond
	return func(text string) error {
		if err := conf.Duration(grace, 0)(text); err != nil || *grace > longest {
			return fmt.Errorf("seconds, or a duration such as 500ms, 30s or 2m, from 0s to %v", longest)
		}
		return nil
	}
}

// cancelWish is what is to be cancelled, and how.
type cancelWish struct {
	consent
	grace    time.Duration
	schedule bool   // rows that recur end, running or not
	target   string // all of its jobs; "": those that were named
	waiting  bool   // of these only those that have not been started
}

// unfinished asks for the jobs of a target that are to be cancelled, and whether that is meant. There are
// none where it is not, or where they are only to be shown.
func (p *program) unfinished(ctx context.Context, w cancelWish) (jobs []operator.Job, err error) {
	jobs, more, err := operator.Unfinished(ctx, p.daemon(), w.target, w.waiting, p.note)
	if err != nil {
		return nil, err
	}
	question := fmt.Sprintf("%s of target %s would be cancelled", screen.Count(len(jobs), "job"), clean(w.target))
	if more {
		question += ", and there are more"
	}
	if len(jobs) == 0 {
		return nil, p.nothing(ctx, w.target, "there is no job of target "+clean(w.target)+" to cancel")
	}
	given, err := p.given(ctx, w.consent, question+".", func() error {
		t := p.table("", "", "JOB", "TARGET")
		for _, job := range jobs {
			t.add(job.ID, w.target)
		}
		return t.end(nil)
	})
	if !given {
		return nil, err
	}
	return jobs, nil
}

func (p *program) cancelJobs(ctx context.Context, jobs []operator.Job, w cancelWish) error {
	c := &operator.Cancelling{Daemon: p.daemon(), Grace: w.grace, Schedule: w.schedule}
	err := operator.MayBeDone(c.Run(ctx, jobs), api.Cancel.Name)
	if err != nil && len(c.Done)+len(c.Failed) == 0 {
		return errors.Join(err, c.Mute)
	}
	p.showCancelled(c, jobs)
	failed := whyNot(jobs, c.Failed)
	if len(failed) > 0 { // else nobody else was needed
		failed = append(failed, c.Mute)
	}
	return exit.Join(append(failed, err)...)
}

// showCancelled prints what became of the jobs that were cancelled.
func (p *program) showCancelled(c *operator.Cancelling, jobs []operator.Job) {
	if p.json() {
		p.printJSON(map[string]any{"jobs": c.Done, "errors": c.Failed})
		return
	}
	t := p.table("", "", "JOB", "TARGET", when(c.Daemon.Master, "WORKER"), "BECAME")
	for _, job := range jobs {
		if done, did := c.Done[job.ID]; did {
			t.add(job.ID, done.Target, done.Worker, p.became(done))
		}
	}
	if t.count > 0 {
		t.print()
	}
}

// became says what became of a job that was cancelled.
func (p *program) became(job operator.Cancelled) string {
	switch job.State {
	case api.CancelIgnored:
		return "ignored: it will not run"
	case api.CancelDone:
		return "done: it ran before, and is not run again"
	case api.CancelCancelling:
	default:
		return job.State
	}
	left := time.UnixMilli(job.Kill).Sub(p.now()).Round(time.Second)
	grace := time.Duration(job.Grace) * time.Millisecond
	next := ""
	if job.Next > 0 {
		next = "; next run " + p.seconds(job.Next)
	}
	switch {
	case job.Before:
		return fmt.Sprintf("cancelling already, by %s: SIGKILL in %v", job.By, max(left, 0)) + next
	case grace == 0:
		return "cancelling: SIGTERM sent, and SIGKILL" + next
	}
	return fmt.Sprintf("cancelling: SIGTERM sent, SIGKILL in %v", grace) + next
}

// lastSignal is the last one that Linux has.
const lastSignal = 64

func (p *program) sendSignal() *cmd {
	name := api.SendSignal.Name
	return command("send-signal SIG ID… | SIG T:ID…", "send a signal, as TERM, SIGTERM or 15, to running jobs", func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			return wrongUsage("%s: needs a signal and at least one job", name)
		}
		signo, err := parseSignal(args[0])
		if err != nil {
			return wrongUsage("%s: %w", name, err)
		}
		jobs, err := jobRefs(name, args[1:], 0)
		if err == nil {
			jobs, err = p.withTargets(ctx, jobs)
		}
		if err != nil {
			return err
		}
		var answer api.Delivered
		if err := p.askFor(ctx, name, p.signalRequest(jobs, signo), &answer); err != nil {
			return operator.MayBeDone(err, name)
		}
		return p.showDelivered(jobs, signo, answer)
	})
}

func (p *program) signalRequest(jobs []operator.Job, signo int) any {
	if p.config.master {
		list := make([]api.SignalJob, len(jobs))
		for i, job := range jobs {
			list[i] = api.SignalJob{ID: job.ID, Signal: int64(signo), Target: job.Target}
		}
		return api.SignalJobs{Jobs: list}
	}
	signals := make(map[jobnet.Whole]int, len(jobs))
	for _, job := range jobs {
		signals[job.ID] = signo
	}
	return api.Signals{Jobs: signals}
}

// showDelivered prints where the signal went, and is an error where it did not.
func (p *program) showDelivered(jobs []operator.Job, signo int, answer api.Delivered) error {
	t := p.table("", "", "JOB", "SIGNAL", "DELIVERED")
	var failed []error
	for _, job := range jobs {
		key := strconv.FormatInt(int64(job.ID), 10)
		delivered := answer.Jobs[key]
		if !p.json() {
			t.add(job.ID, operator.SignalName(signo), yesOrNo(delivered))
		}
		switch reason := answer.Errors[key]; {
		case reason != "":
			failed = append(failed, operator.JobError(job.ID, reason))
		case !delivered:
			failed = append(failed, fmt.Errorf("job %d: not running, or no such signal", job.ID))
		}
	}
	t.print()
	return exit.Join(failed...)
}

// parseSignal reads a signal's number, or its name with or without SIG.
func parseSignal(text string) (int, error) {
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	number, err := strconv.Atoi(name)
	if err != nil {
		number = int(unix.SignalNum("SIG" + name))
	}
	if number < 0 || number > lastSignal || err != nil && number == 0 {
		return 0, fmt.Errorf("signal %q is not allowed; allowed: names such as TERM and SIGTERM, and numbers from 0 to %d", text, lastSignal)
	}
	return number, nil
}

func (p *program) wait() *cmd {
	c := command("wait ID… | T:ID…", "wait until jobs have ended, after all their attempts; a recurring job: until its current run has ended, or else its next one; exit code 1 if one failed or was ignored", func(ctx context.Context, args []string) error {
		jobs, err := jobRefs("wait", args, 0)
		if err != nil {
			return err
		}
		w := jobWait{program: p, jobs: jobs, rows: map[jobnet.Whole]history.Row{}, first: map[jobnet.Whole]history.Row{}}
		return w.run(ctx)
	})
	return c
}

// jobWait waits for jobs.
type jobWait struct {
	*program
	jobs  []operator.Job
	rows  map[jobnet.Whole]history.Row // of those that are at their end
	first map[jobnet.Whole]history.Row // of those that recur: as they were when their run was first seen
	left  []operator.Job               // the others, as they were seen last
	seen  map[jobnet.Whole]string      // their statuses
	met   bool                         // a daemon has answered
}

// How long it takes from one look at the rows to the next: ever longer, up to lastLook.
const (
	firstLook = 200 * time.Millisecond
	lastLook  = 2 * time.Second
)

// run looks at the rows until all are at their end. It waits for a daemon that can't be reached, or can't
// read its table, also at the very beginning.
func (w *jobWait) run(ctx context.Context) error {
	w.left = w.jobs
	d := w.daemon()
	pause := firstLook
	var journals *operator.Journals
	lasting := operator.Lasting{Outlives: operator.Awaited, Tell: func(err error) { w.note(fmt.Errorf("%s; waiting until this is over", screen.InALine(err.Error()))) }, Most: lastLook}
	err := lasting.Run(ctx, func() (rest time.Duration, err error) {
		if journals == nil {
			if journals, err = operator.FindTables(ctx, d, w.note); err != nil {
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
		pause = min(pause*3/2, lastLook)
		return pause, nil
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return w.late(ctx)
	case err != nil:
		return err
	}
	return w.tellEnds()
}

// look reads the rows of the jobs that are left.
func (w *jobWait) look(ctx context.Context, j *operator.Journals) error {
	rows, wrong, err := operator.RowsOf(ctx, j, w.left)
	if err != nil {
		return errors.Join(append(j.Failed, err)...)
	}
	w.met = true
	gone := whyNot(w.left, wrong)
	var left []operator.Job
	w.seen = map[jobnet.Whole]string{}
	for _, job := range w.left {
		row, there := rows[job.ID]
		switch {
		case !there:
		case row.Status == journal.RowDone || row.Status == journal.RowIgnored || w.ran(row):
			w.rows[job.ID] = row
		default:
			left = append(left, job)
			w.seen[job.ID] = w.statusText(row)
		}
	}
	if w.left = left; len(gone) > 0 {
		return exit.With(exit.NoJob, errors.Join(gone...))
	}
	return nil
}

// ofJobs is how many jobs, of all that are waited for.
func ofJobs(n, all int) string {
	if all == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d of %d jobs", n, all)
}

// late is the error of a wait that ends before the jobs do.
func (w *jobWait) late(ctx context.Context) error {
	first := w.left[0].ID
	text := fmt.Sprintf("%s not done: job %d", ofJobs(len(w.left), len(w.jobs)), first)
	if status := w.seen[first]; status != "" {
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

// tellEnds prints how the jobs ended.
func (w *jobWait) tellEnds() error {
	t := w.table("", "", "JOB", "STATUS", "RESULT", "EXIT")
	var failed []error
	for _, job := range w.jobs {
		row := w.rows[job.ID]
		tone := good
		if row.Status == journal.RowIgnored || row.Result != "ok" {
			tone = bad
			failed = append(failed, fmt.Errorf("job %d: %s", job.ID, operator.RowEnd(row)))
		}
		form := struct {
			Job    jobnet.Whole `json:"job"`
			Status string       `json:"status"`
			Result string       `json:"result,omitempty"`
			Code   *int64       `json:"code,omitempty"`
			Signal string       `json:"signal,omitempty"`
		}{job.ID, row.Status, row.Result, row.Code, row.Signal}
		t.put(form, tone, job.ID, row.Status, row.Result, rowExit(row))
	}
	t.print()
	return exit.With(1, errors.Join(failed...))
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
	if row.Plan == nil || row.Plan.Schedule == "" {
		return false
	}
	first, seen := w.first[row.Job]
	if !seen || first.Plan.PlannedAt == 0 && row.Finished == first.Finished {
		w.first[row.Job] = row // the first run is planned by its claim
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

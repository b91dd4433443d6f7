package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	jobnet "jobd/net"
	"jobd/net/api"
)

// jobRefs reads the jobs that a command is about, each once, so many at most; 0: any number.
func jobRefs(name string, args []string, most int) (jobs []operator.Job, err error) {
	if len(args) == 0 {
		return nil, wrongUsage("%s: needs at least one job, as ID or TARGET:ID", name)
	}
	seen := make(map[jobnet.Whole]string, len(args))
	for _, arg := range args {
		colon := strings.LastIndexByte(arg, ':')
		job := operator.Job{Target: arg[:max(colon, 0)]}
		if job.ID, err = parseID(arg[colon+1:]); err != nil || colon == 0 {
			return nil, wrongUsage("%s: job %q is not allowed; allowed: ID or TARGET:ID, where ID is %w", name, arg, errID)
		}
		before, again := seen[job.ID]
		switch {
		case !again:
			jobs = append(jobs, job)
		case before != job.Target:
			return nil, wrongUsage("%s: job %d is named twice, with different targets", name, job.ID)
		}
		seen[job.ID] = job.Target
	}
	if most > 0 && len(jobs) > most {
		return nil, wrongUsage("%s: %d jobs are too many; at most %d are allowed", name, len(jobs), most)
	}
	return jobs, nil
}

// oneJob reads the job of a command that is about one; form says how it is named.
func oneJob(name, form string, args []string) (operator.Job, error) {
	switch len(args) {
	case 0:
		return operator.Job{}, wrongUsage("%s: needs a job, as %s", name, form)
	case 1:
		jobs, err := jobRefs(name, args, 1)
		return append(jobs, operator.Job{})[0], err
	}
	return operator.Job{}, wrongUsage("%s: takes one job, got %q", name, args)
}

// withTargets gives jobs the targets of their rows, where the request that follows needs them: a master
// passes it on by target, a worker is told none. A target that was given must be the row's.
func (p *program) withTargets(ctx context.Context, jobs []operator.Job) ([]operator.Job, error) {
	var unsure []operator.Job
	for _, job := range jobs {
		if p.config.master == (job.Target == "") {
			unsure = append(unsure, job)
		}
	}
	if len(unsure) == 0 {
		return jobs, nil
	}
	var rows map[jobnet.Whole]history.Row
	var wrong map[jobnet.Whole]string
	err := p.read(ctx, nil, func(ctx context.Context, j *operator.Journals) (err error) {
		rows, wrong, err = operator.RowsOf(ctx, j, unsure)
		return err
	})
	if err != nil {
		return nil, err
	}
	found := slices.Clone(jobs)
	for i, job := range found {
		if row, there := rows[job.ID]; there {
			found[i].Target = row.Target
		}
	}
	return found, exit.With(exit.NoJob, errors.Join(whyNot(jobs, wrong)...))
}

// whyNot are the errors of those among some jobs about which nothing was done, in their order.
func whyNot(jobs []operator.Job, wrong map[jobnet.Whole]string) (errs []error) {
	for _, job := range jobs {
		if text, is := wrong[job.ID]; is {
			errs = append(errs, operator.JobError(job.ID, text))
		}
	}
	return errs
}

func (p *program) runManual() *cmd {
	name := api.RunManual.Name
	return command("run-manual ID… | T:ID…", "run jobs of status manual and print what they print", func(ctx context.Context, args []string) error {
		jobs, err := jobRefs(name, args, 0)
		if err == nil {
			jobs, err = p.withTargets(ctx, jobs)
		}
		if err != nil {
			return err
		}
		var answer api.Outcomes
		shown, err := p.whileTheyRun(ctx, jobs, func() error { return p.askFor(ctx, name, p.manualRequest(jobs), &answer) })
		if err != nil {
			return p.goOn(err, jobs)
		}
		if !p.json() {
			p.printOutputs(slices.DeleteFunc(slices.Clone(jobs), func(job operator.Job) bool { return shown[job.ID] }), answer, len(jobs) > 1)
		}
		return failures(jobs, answer)
	})
}

// whileTheyRun runs jobs, and shows what they write as it comes: shown are those of which that is all.
// What is short, or what nobody could tell meanwhile, comes with the answer.
func (p *program) whileTheyRun(ctx context.Context, jobs []operator.Job, run func() error) (shown map[jobnet.Whole]bool, err error) {
	if p.json() || len(jobs) > mostLive {
		return nil, run()
	}
	d := p.daemon()
	l := &following{program: p, d: operator.New(d.Config), jobs: jobs, parts: map[jobnet.Whole]*livePart{}}
	defer l.d.Close() // a link of its own: what goes wrong with it does not concern the jobs
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		l.follow(ctx, ended)
	}()
	err = run()
	close(ended)
	<-over
	if err != nil {
		return nil, err
	}
	return l.rest(ctx), nil
}

// mostLive is how many jobs are followed while they run.
const mostLive = 16

// following shows what jobs write while they run.
type following struct {
	*program
	d     *operator.Daemon
	jobs  []operator.Job
	parts map[jobnet.Whole]*livePart // of those that were seen running
	last  [2]jobnet.Whole            // whose stdout, and whose stderr, was written last
	open  [2]bool                    // it ended within a line
}

// livePart is what was shown of a job.
type livePart struct {
	on   *operator.Worker
	from [2]int64
}

// follow looks again and again until the jobs have ended.
func (l *following) follow(ctx context.Context, ended <-chan struct{}) {
	for pause := soonTail; ; {
		select {
		case <-ended:
			return
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if len(l.parts) < len(l.jobs) {
			l.find(ctx)
		}
		pause = min(2*pause, lateTail)
		for id, part := range l.parts {
			if some, err := l.look(ctx, id, part); err == nil && some {
				pause = soonTail
			}
		}
	}
}

// find asks which worker runs which of the jobs. Where nobody can tell, the output comes with the answer.
func (l *following) find(ctx context.Context) {
	all, err := operator.All[api.RunningJobs](ctx, l.d, api.Running.Name, api.RunningQuery{})
	if err != nil {
		return
	}
	for _, one := range all {
		for _, running := range one.Value.Jobs {
			wanted := slices.ContainsFunc(l.jobs, func(job operator.Job) bool { return job.ID == running.Job })
			if wanted && l.parts[running.Job] == nil {
				l.parts[running.Job] = &livePart{on: one.From}
			}
		}
	}
}

// rest shows what is left of the jobs that have ended, as far as they were followed.
func (l *following) rest(ctx context.Context) (shown map[jobnet.Whole]bool) {
	shown = make(map[jobnet.Whole]bool, len(l.parts))
	for _, job := range l.jobs {
		part := l.parts[job.ID]
		for some := part != nil; some; {
			var err error
			if some, err = l.look(ctx, job.ID, part); err != nil {
				l.note(fmt.Errorf("job %d: the rest of its output could not be read: %w; it is in: jobctl tail %[1]d", job.ID, err))
			}
		}
		shown[job.ID] = part != nil
	}
	return shown
}

// look shows what a job has written since the last look, and tells whether there was something.
func (l *following) look(ctx context.Context, id jobnet.Whole, part *livePart) (some bool, err error) {
	var answer api.JobOutput
	query := api.OutputQuery{Job: id, Stdout: part.from[0], Stderr: part.from[1]}
	if err := part.on.Ask(ctx, api.Output.Name, query, &answer); err != nil {
		return false, err
	}
	for i, piece := range []*api.OutputPart{&answer.Stdout, &answer.Stderr} {
		if piece.Skipped > 0 {
			l.note(fmt.Errorf("job %d: %s bytes of %s were not kept", id, humanize.Comma(piece.Skipped), [2]string{"stdout", "stderr"}[i]))
		}
		part.from[i] = piece.At + int64(len(piece.Bytes))
		if len(piece.Bytes) > 0 {
			some = true
			l.write(i, id, piece.Bytes)
		}
	}
	return some, nil
}

// write passes on a piece; of several jobs with a line above it that names the job, where it is
// another one than before there. A terminal shows both streams, and each head once.
func (l *following) write(stream int, id jobnet.Whole, piece []byte) {
	out := [2]io.Writer{l.out, l.err}[stream]
	if l.oneScreen() {
		stream = 0
	}
	if len(l.jobs) > 1 && l.last[stream] != id {
		head := fmt.Sprintf("==> job %d <==\n", id)
		if l.open[stream] {
			head = "\n" + head
		}
		_, _ = io.WriteString(out, head)
	}
	_, _ = out.Write(piece) // whoever closed the pipe wants no more
	l.last[stream], l.open[stream] = id, !bytes.HasSuffix(piece, []byte("\n"))
}

func (p *program) manualRequest(jobs []operator.Job) any {
	if p.config.master {
		list := make([]api.TargetJob, len(jobs))
		for i, job := range jobs {
			list[i] = api.TargetJob{ID: job.ID, Target: job.Target}
		}
		return api.ManualJobs{Jobs: list}
	}
	ids := make([]jobnet.Whole, len(jobs))
	for i, job := range jobs {
		ids[i] = job.ID
	}
	return api.Manual{IDs: ids}
}

// goOn says that jobs that were asked for go on without jobctl, where that is why there is no
// answer.
func (p *program) goOn(err error, jobs []operator.Job) error {
	if !operator.LeftOpen(err, api.RunManual.Name) {
		return err
	}
	jobctl, what := "jobctl", "the job goes on"
	if p.config.master {
		jobctl += " --master"
	}
	if len(jobs) > 1 {
		what = "the jobs go on"
	}
	return fmt.Errorf("%w; %s without jobctl: '%s journal show %d' shows how it ends", err, what, jobctl, jobs[0].ID)
}

// printOutputs passes stdout on to stdout and stderr to stderr, as the jobs wrote them; of several
// jobs each with a line above it that names the job.
func (p *program) printOutputs(jobs []operator.Job, answer api.Outcomes, several bool) {
	for _, job := range jobs {
		done, ok := answer.Jobs[job.ID]
		if !ok {
			continue
		}
		if several {
			head := fmt.Sprintf("==> job %d: %s <==\n", job.ID, operator.Outcome(done))
			done.Stdout = head + withNewline(done.Stdout)
			if done.Stderr = withNewline(done.Stderr); done.Stderr != "" && !p.oneScreen() {
				done.Stderr = head + done.Stderr
			}
		}
		_, _ = io.WriteString(p.out, done.Stdout) // whoever closed the pipe wants no more
		_, _ = io.WriteString(p.err, done.Stderr)
	}
}

// oneScreen tells whether a person sees stdout and stderr on one terminal.
func (p *program) oneScreen() bool { return p.terminal && p.errTerminal }

func withNewline(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// failures is an error that names every job that is not ok.
func failures(jobs []operator.Job, answer api.Outcomes) error {
	var failed []error
	for _, job := range jobs {
		text, refused := answer.Errors[job.ID]
		done, ran := answer.Jobs[job.ID]
		switch {
		case refused:
			failed = append(failed, operator.JobError(job.ID, text))
		case !ran:
			failed = append(failed, fmt.Errorf("job %d: the daemon reported nothing of it", job.ID))
		case done.Result != "ok":
			failed = append(failed, fmt.Errorf("job %d: %s", job.ID, operator.Outcome(done)))
		}
	}
	return exit.Join(failed...)
}

func (p *program) runNow() *cmd {
	c := command("run-now ID… | T:ID…", "make delayed jobs due now; a recurring job runs now instead of at its next time", func(ctx context.Context, args []string) error {
		return p.plan(ctx, hand{"run-now", api.RunNow.Name, "made due", "WAS DUE"}, args)
	})
	return c
}

// hand is what is done by hand to the plans of delayed rows.
type hand struct {
	command, request string
	done             string // what rows are when it was done
	head             string // of the column with the time that the answer tells
}

// plan changes the plans of delayed rows by hand.
func (p *program) plan(ctx context.Context, h hand, args []string) error {
	jobs, err := jobRefs(h.command, args, api.MostPlanned)
	if err != nil {
		return err
	}
	return p.read(ctx, nil, func(ctx context.Context, j *operator.Journals) error {
		planned, errs, err := operator.Replan(ctx, j, h.request, h.done, jobs)
		if err == nil {
			p.printPlanned(planned, h.head)
			err = joined(errs)
		}
		return err
	})
}

// printPlanned tells which rows were changed.
func (p *program) printPlanned(planned *operator.Planned, head string) {
	if p.json() {
		p.printJSON(planned.PlannedRows)
		return
	}
	t := p.table("", "TARGET", "JOB", "TARGET", head)
	for _, job := range planned.Asked {
		if was, did := planned.Jobs[job.ID]; did {
			t.add(int64(job.ID), job.Target, cmp.Or(p.seconds(was), "not planned yet"))
		}
	}
	if t.count > 0 {
		t.print()
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	jobnet "jobd/net"
	"jobd/net/api"
)

// jobRef names a job on the command line: ID for a worker, TARGET:ID for a master.
type jobRef struct {
	id     jobnet.Whole
	target string
}

// anyJobs reads the jobs that a command is about: ID, or TARGET:ID, each once, so many at most.
func anyJobs(name string, args []string, most int) (jobs []jobRef, err error) {
	if len(args) == 0 {
		return nil, wrongUsage("%s: needs at least one job, as ID or TARGET:ID", name)
	}
	seen := make(map[jobnet.Whole]string, len(args))
	for _, arg := range args {
		var job jobRef
		colon := strings.LastIndexByte(arg, ':')
		job.target = arg[:max(colon, 0)]
		if job.id, err = parseID(arg[colon+1:]); err != nil || colon == 0 {
			return nil, wrongUsage("%s: job %q is not allowed; allowed is ID or TARGET:ID, where ID is %w", name, arg, errID)
		}
		before, again := seen[job.id]
		switch {
		case !again:
			jobs = append(jobs, job)
		case before != job.target:
			return nil, wrongUsage("%s: job %d is named twice, with different targets", name, job.id)
		}
		seen[job.id] = job.target
	}
	if len(jobs) > most {
		return nil, wrongUsage("%s: %d jobs are too many; at most %d are allowed", name, len(jobs), most)
	}
	return jobs, nil
}

// jobRefs reads the jobs that a command is about, each once.
func (p *program) jobRefs(name string, args []string) ([]jobRef, error) {
	form := "ID"
	if p.config.master {
		form = "TARGET:ID"
	}
	if len(args) == 0 {
		return nil, wrongUsage("%s: needs at least one job, as %s", name, form)
	}
	var jobs []jobRef
	for _, arg := range args {
		var job jobRef
		text := arg
		if p.config.master {
			colon := strings.LastIndexByte(arg, ':')
			job.target, text = arg[:max(colon, 0)], arg[colon+1:]
		}
		id, err := parseID(text)
		if err != nil || p.config.master && job.target == "" {
			return nil, wrongUsage("%s: job %q is not allowed; allowed is %s, where ID is %w", name, arg, form, errID)
		}
		job.id = id
		if !slices.Contains(jobs, job) {
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}

func (p *program) runManual() *ffcli.Command {
	name := api.RunManual.Name
	return command(name, "run-manual ID… | T:ID…", "run jobs of status manual and print what they print; a master needs their targets", func(ctx context.Context, args []string) error {
		jobs, err := p.jobRefs(name, args)
		if err != nil {
			return err
		}
		var answer api.Outcomes
		if err := p.askInto(ctx, name, p.manualRequest(jobs), &answer); err != nil {
			return p.goOn(err, jobs)
		}
		if !p.json() {
			p.printOutputs(jobs, answer)
		}
		return failures(jobs, answer)
	})
}

func (p *program) manualRequest(jobs []jobRef) any {
	if p.config.master {
		list := make([]api.TargetJob, len(jobs))
		for i, job := range jobs {
			list[i] = api.TargetJob{ID: job.id, Target: job.target}
		}
		return api.ManualJobs{Jobs: list}
	}
	ids := make([]jobnet.Whole, len(jobs))
	for i, job := range jobs {
		ids[i] = job.id
	}
	return api.Manual{IDs: ids}
}

// goOn says that jobs that were asked for go on without jobctl, where that is why there is no
// answer.
func (p *program) goOn(err error, jobs []jobRef) error {
	if !leftOpen(err, api.RunManual.Name) {
		return err
	}
	jobctl, what := "jobctl", "the job goes on"
	if p.config.master {
		jobctl += " --master"
	}
	if len(jobs) > 1 {
		what = "the jobs go on"
	}
	return fmt.Errorf("%w; %s without jobctl: '%s journal show %d' tells how it ends", err, what, jobctl, jobs[0].id)
}

// printOutputs passes stdout on to stdout and stderr to stderr, as the jobs wrote them; of several
// jobs each with a line above it that names the job.
func (p *program) printOutputs(jobs []jobRef, answer api.Outcomes) {
	for _, job := range jobs {
		done, ok := answer.Jobs[job.id]
		if !ok {
			continue
		}
		if len(jobs) > 1 {
			head := fmt.Sprintf("==> job %d: %s <==\n", job.id, outcomeOf(done))
			done.Stdout = head + withNewline(done.Stdout)
			if done.Stderr != "" {
				done.Stderr = head + withNewline(done.Stderr)
			}
		}
		_, _ = io.WriteString(p.out, done.Stdout) // whoever closed the pipe wants no more
		_, _ = io.WriteString(p.err, done.Stderr)
	}
}

func withNewline(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// failures is an error that names every job that is not ok.
func failures(jobs []jobRef, answer api.Outcomes) error {
	var failed []error
	for _, job := range jobs {
		text, refused := answer.Errors[job.id]
		done, ran := answer.Jobs[job.id]
		switch {
		case refused:
			// Some of the daemons' texts name the job themselves.
			text = strings.TrimPrefix(text, fmt.Sprintf("job %d ", job.id))
			failed = append(failed, fmt.Errorf("job %d: %s", job.id, clean(text)))
		case !ran:
			failed = append(failed, fmt.Errorf("job %d: the daemon told nothing of it", job.id))
		case done.Result != "ok":
			failed = append(failed, fmt.Errorf("job %d: %s", job.id, outcomeOf(done)))
		}
	}
	return errors.Join(failed...)
}

// outcomeOf says how a job ended.
func outcomeOf(j api.Outcome) string {
	switch {
	case j.Signal != nil && *j.Signal != "":
		return "killed by " + clean(*j.Signal)
	case j.Code != nil && *j.Code != 0:
		return fmt.Sprintf("exit code %d", *j.Code)
	default:
		return clean(j.Result)
	}
}

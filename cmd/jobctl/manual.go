package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// jobRef names a job on the command line: ID for a worker, TARGET:ID for a master.
type jobRef struct {
	id     int64
	target string
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
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id < 1 || p.config.master && job.target == "" {
			return nil, wrongUsage("%s: job %q is not allowed; allowed is %s, where ID is a whole number of at least 1", name, arg, form)
		}
		job.id = id
		if !slices.Contains(jobs, job) {
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}

// manualAnswer is the answer to run-manual.
type manualAnswer struct {
	Jobs   map[int64]manualJob `json:"jobs"`
	Errors map[int64]string    `json:"errors"`
}

type manualJob struct {
	Result string `json:"result"`
	Code   *int   `json:"code"`
	Signal string `json:"signal"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

func (p *program) runManual() *ffcli.Command {
	const name = "run-manual"
	return command(name, "run-manual ID… | T:ID…", "run jobs of status manual and print what they print; a master needs their targets", func(ctx context.Context, args []string) error {
		jobs, err := p.jobRefs(name, args)
		if err != nil {
			return err
		}
		var answer manualAnswer
		if err := p.askInto(ctx, name, p.manualRequest(jobs), &answer); err != nil {
			return err
		}
		if !p.json() {
			p.printOutputs(jobs, answer)
		}
		return answer.failures(jobs)
	})
}

func (p *program) manualRequest(jobs []jobRef) any {
	if !p.config.master {
		ids := make([]int64, len(jobs))
		for i, job := range jobs {
			ids[i] = job.id
		}
		return map[string]any{"ids": ids}
	}
	list := make([]map[string]any, len(jobs))
	for i, job := range jobs {
		list[i] = map[string]any{"id": job.id, "target": job.target}
	}
	return map[string]any{"jobs": list}
}

// printOutputs passes stdout on to stdout and stderr to stderr, as the jobs wrote them; of several
// jobs each with a line above it that names the job.
func (p *program) printOutputs(jobs []jobRef, answer manualAnswer) {
	for _, job := range jobs {
		done, ok := answer.Jobs[job.id]
		if !ok {
			continue
		}
		if len(jobs) > 1 {
			head := fmt.Sprintf("==> job %d: %s <==\n", job.id, done.outcome())
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
func (a manualAnswer) failures(jobs []jobRef) error {
	var failed []error
	for _, job := range jobs {
		text, refused := a.Errors[job.id]
		done, ran := a.Jobs[job.id]
		switch {
		case refused:
			// Some of the daemons' texts name the job themselves.
			text = strings.TrimPrefix(text, fmt.Sprintf("job %d ", job.id))
			failed = append(failed, fmt.Errorf("job %d: %s", job.id, clean(text)))
		case !ran:
			failed = append(failed, fmt.Errorf("job %d: the daemon told nothing of it", job.id))
		case done.Result != "ok":
			failed = append(failed, fmt.Errorf("job %d: %s", job.id, done.outcome()))
		}
	}
	return errors.Join(failed...)
}

// outcome says how a job ended.
func (j manualJob) outcome() string {
	switch {
	case j.Signal != "":
		return "killed by " + clean(j.Signal)
	case j.Code != nil && *j.Code != 0:
		return fmt.Sprintf("exit code %d", *j.Code)
	default:
		return clean(j.Result)
	}
}

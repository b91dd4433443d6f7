package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/screen"
	"jobd/net/api"
)

// atWork is a running job, and the worker that runs it.
type atWork struct {
	api.RunningJob
	Worker string `json:"worker,omitempty"` // "" where one worker was asked
}

// atWorkEverywhere is what runs on all workers that were asked.
type atWorkEverywhere struct {
	Jobs   []atWork          `json:"jobs"`
	Total  int               `json:"total"`
	Errors map[string]string `json:"errors,omitempty"` // of the workers that did not tell, by name
}

func (p *program) ps() *ffcli.Command {
	query := api.RunningQuery{}
	var target string
	c := command("ps", "ps [--target T] [--sort age|cpu|memory]", "what runs: since when, and what of the processor and the memory it uses", func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			return wrongUsage("ps: takes no arguments, got %q", args)
		}
		if !slices.Contains([]string{api.SortAge, api.SortCPU, api.SortMemory}, query.Sort) {
			return wrongUsage("ps: --sort %q is not allowed; allowed are %s, %s and %s", query.Sort, api.SortAge, api.SortCPU, api.SortMemory)
		}
		if target != "" {
			query.Targets = []string{target}
		}
		return p.linked(ctx, func(ctx context.Context, c *client) error { return p.showRunning(ctx, c, query) })
	})
	c.LongHelp = "  jobctl ps --sort memory\n  jobctl --master ps --target mail"
	c.FlagSet.StringVar(&target, "target", "", "only jobs of this target")
	c.FlagSet.StringVar(&query.Sort, "sort", api.SortAge, "what comes first: the oldest (age), or what uses most cpu or memory (default: age)")
	return c
}

// showRunning asks for what runs, and prints it. Workers that do not tell are an error beside that.
func (p *program) showRunning(ctx context.Context, c *client, query api.RunningQuery) error {
	if err := c.expect(ctx); err != nil {
		return err
	}
	fleet, err := askFleet[api.RunningJobs](ctx, c, api.Running.Name, query)
	if err != nil {
		return err
	}
	all := merged(fleet, query.Sort)
	err = silent(fleet)
	if len(all.Jobs) == 0 && err == nil {
		p.noteUnserved(ctx, strings.Join(query.Targets, ""))
	}
	if p.json() {
		for _, one := range fleet {
			if one.err != nil {
				if all.Errors == nil {
					all.Errors = make(map[string]string)
				}
				all.Errors[one.from.name] = one.err.Error()
			}
		}
		if printErr := p.printJSON(all); printErr != nil {
			return printErr
		}
		return err
	}
	p.print(p.runningTable(all, c.master))
	if hidden := all.Total - len(all.Jobs); hidden > 0 {
		fmt.Fprintf(p.err, "jobctl: %s more jobs run; each worker lists %s at most\n",
			humanize.Comma(int64(hidden)), humanize.Comma(api.MostRunning))
	}
	return err
}

// merged is what several workers told, in one order.
func merged(fleet []told[api.RunningJobs], order string) atWorkEverywhere {
	all := atWorkEverywhere{Jobs: []atWork{}}
	for _, one := range fleet {
		all.Total += one.answer.Total
		for _, job := range one.answer.Jobs {
			all.Jobs = append(all.Jobs, atWork{job, one.from.name})
		}
	}
	api.SortRunning(all.Jobs, order, func(j *atWork) *api.RunningJob { return &j.RunningJob })
	return all
}

func (p *program) runningTable(all atWorkEverywhere, workers bool) table {
	head := []string{"JOB", "TARGET", "WORKER", "PID", "TRY", "SINCE", "ELAPSED", "CPU", "MEMORY"}
	t := table{none: "nothing runs", elastic: "TARGET|WORKER"}
	now := p.now()
	limited := slices.ContainsFunc(all.Jobs, func(j atWork) bool { return j.Deadline > 0 })
	if limited {
		head = append(head, "LEFT")
	}
	other := slices.ContainsFunc(all.Jobs, func(j atWork) bool { return j.Executor != "" })
	if other {
		head = append(head, "EXECUTOR")
	}
	for _, j := range all.Jobs {
		pid, cpu, memory := "", "", ""
		if j.PID > 0 {
			pid = fmt.Sprint(j.PID)
		}
		if j.CPU != nil {
			cpu = screen.ShortLength(time.Duration(*j.CPU) * time.Millisecond)
		}
		if j.Memory != nil {
			memory = humanize.IBytes(uint64(max(0, *j.Memory)))
		}
		since := time.UnixMilli(j.Since)
		elapsed := now.Sub(since)
		if j.Elapsed != nil {
			elapsed = time.Duration(*j.Elapsed) * time.Millisecond
		}
		row := []any{j.Job, j.Target, j.Worker, pid, attemptOf(j.RunningJob), p.clock(since), screen.Length(elapsed), cpu, memory}
		if limited {
			row = append(row, p.leftOf(j.RunningJob))
		}
		if other {
			row = append(row, cmp.Or(j.Executor, "process"))
		}
		t.add(columnsOf(row, workers)...)
	}
	for i, name := range head {
		if workers || i != psWorker {
			t.head = append(t.head, name)
		}
	}
	return t
}

// psWorker is the column that stands only where several workers may be asked.
const psWorker = 2

func columnsOf(row []any, workers bool) (cells []cell) {
	for i, value := range row {
		if workers || i != psWorker {
			cells = append(cells, line(value))
		}
	}
	return cells
}

// attemptOf is the number of an attempt, of how many where there may be several.
func attemptOf(j api.RunningJob) string {
	if j.MaxAttempts <= 1 {
		return fmt.Sprint(j.Attempt)
	}
	return fmt.Sprintf("%d/%d", j.Attempt, j.MaxAttempts)
}

// leftOf is how much longer a job may run; "" where nothing limits that.
func (p *program) leftOf(j api.RunningJob) string {
	if j.Deadline == 0 {
		return ""
	}
	return screen.Length(time.UnixMilli(j.Deadline).Sub(p.now()))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/reason"
	jobnet "jobd/net"
	"jobd/net/api"
)

func (p *program) show() *cmd {
	all, runs := false, operator.UsualRuns
	c := command("show [-n RUNS | --all] ID | T:ID", "one job: its row, where it is, and its story from all journals", func(ctx context.Context, args []string) error {
		job, err := oneJob("show", "ID or TARGET:ID", args)
		if err != nil {
			return err
		}
		if all {
			runs = 0
		}
		return p.showJob(ctx, p.daemon(), job, runs)
	})
	c.value("n", "only the newest N runs; each claim of the row begins one", conf.Int(&runs, 1, mostRuns))
	c.FlagSet.BoolVar(&all, "all", false, "all runs, however many")
	return c
}

// showJob shows one job, with so many of its runs (0: all).
func (p *program) showJob(ctx context.Context, d *operator.Daemon, job operator.Job, runs int) error {
	s, err := operator.Tell(ctx, d, job, runs, true, p.times(), p.note)
	if err != nil {
		return err
	}
	_ = p.buffered(func() error {
		if p.json() {
			p.printStoryJSON(s)
		} else {
			p.printStory(s)
		}
		return nil
	})
	return exit.Join(exit.Why(ctx, errors.Join(s.Failed...)), unexplained(s.Verdict))
}

// printStoryJSON prints a job's page as one object.
func (p *program) printStoryJSON(s *operator.Story) {
	p.printJSON(struct {
		reason.Verdict
		Row    *api.JobRow `json:"row"`
		Events []eventForm `json:"events"`

		Earlier bool `json:"earlier,omitempty"` // there are others before them
	}{s.Verdict, s.Row, p.eventsOf(s), s.Earlier})
}

// eventsOf are the events of a story as JSON.
func (p *program) eventsOf(s *operator.Story) []eventForm {
	events := []eventForm{}
	for _, run := range s.Runs {
		for _, e := range run.Events {
			events = append(events, eventJSON(e.Source.Worker(), e.Item))
		}
	}
	return events
}

// printStory prints the page: the verdict, the row, what the journals tell, how long things took, and the
// end of what the job wrote.
func (p *program) printStory(s *operator.Story) {
	p.say("%s\n\n", p.paint(clean(s.Verdict.Sentence), toneOfReason(s.Verdict.Reason)))
	switch {
	case s.Row != nil:
		for _, c := range s.Columns() {
			p.say("%-12s %s\n", c.Name+":", clean(c.Text))
		}
	case s.Read:
		p.say("row: none\n")
	default:
		p.say("row: not known, as no worker that was asked could read the table\n")
	}
	p.say("\n")
	switch {
	case len(s.Runs) == 0 && s.Unheard:
		p.say("history: not known, because some journals could not be read\n")
	case len(s.Runs) == 0:
		p.say("history: none; no journal knows this job\n")
	default:
		p.printRuns(s)
	}
	for _, output := range s.Outputs() {
		p.printEnd(s.Job.ID, output)
	}
}

// printRuns prints the events of a job's runs, and how long things took.
func (p *program) printRuns(s *operator.Story) {
	if s.Earlier {
		p.say("earlier runs: jobctl show %d --all\n", s.Job.ID)
	}
	var clocks clocks
	for _, run := range s.Runs {
		for _, e := range run.Events {
			name := ""
			if e.Source.Worker() != "" {
				name = clean(e.Source.Worker()) + "  "
			}
			p.say("%s\n", p.paint(fmt.Sprintf("%s  %s%s", clocks.of(p, e.Item.Time), name, e.Text), toneOf(e.Item.Payload)))
		}
	}
	if delay, known := s.Delay(); known {
		p.say("\n%s: %s\n", delay.Name, delay.Text)
	}
	p.printLengths(s.Newest())
}

// mostShown is how many lines of a job's output are shown, the last ones.
const mostShown = 20

// printEnd prints the last lines of what a job wrote.
func (p *program) printEnd(job jobnet.Whole, o operator.Output) {
	lines := strings.SplitAfter(withNewline(o.Text), "\n")
	lines = lines[:len(lines)-1] // which is empty
	head := fmt.Sprintf("%s: %d bytes", o.Name, o.Size)
	if len(lines) > mostShown || int64(len(o.Text)) < o.Size {
		lines = lines[max(0, len(lines)-mostShown):]
		head += fmt.Sprintf("; the last %d lines, all of it: jobctl tail %d", len(lines), job)
	}
	p.say("\n%s\n%s", head, strings.Join(lines, ""))
}

func (p *program) why() *cmd {
	return command("why ID… | T:ID…", "one sentence: where a job is, and what it waits for", func(ctx context.Context, args []string) error {
		jobs, err := jobRefs("why", args, api.MostJobs)
		if err != nil {
			return err
		}
		return p.sayWhy(ctx, p.daemon(), jobs)
	})
}

// sayWhy prints a sentence about each job. Where one is not explained, that is the exit code.
func (p *program) sayWhy(ctx context.Context, d *operator.Daemon, jobs []operator.Job) error {
	var unknown []error
	for verdict, err := range operator.Why(ctx, d, jobs, p.times(), p.note) {
		switch {
		case err != nil:
			return err
		case p.json():
			p.printJSON(verdict)
		default:
			p.say("%s\n", p.paint(clean(verdict.Sentence), toneOfReason(verdict.Reason)))
		}
		unknown = append(unknown, unexplained(verdict))
	}
	return exit.Join(unknown...)
}

// unexplained is the exit code of a verdict that does not say where a job is, without a text: the
// sentence says why. Of all others it is nil.
func unexplained(v reason.Verdict) error {
	switch v.Reason {
	case reason.NoSuchJob, reason.OtherTarget:
		return exit.With(exit.NoJob, errTold)
	case reason.Unreadable:
		return exit.With(exit.Unknown, errTold)
	}
	return nil
}

// toneOfReason is the tone of a verdict.
func toneOfReason(c reason.Code) tone {
	return map[reason.Look]tone{reason.Good: good, reason.Bad: bad, reason.Usual: plain, reason.Odd: odd}[c.Look()]
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/reason"
	jobnet "jobd/net"
	"jobd/net/api"
)

func (p *program) show() *cmd {
	all, runs := false, operator.UsualRuns
	var dirs []string
	c := command("show [-n RUNS | --all] ID | T:ID", "one job: its row, where it is, and its story from all journals", func(ctx context.Context, args []string) error {
		job, err := oneJob("show", "ID or TARGET:ID", args)
		if err != nil {
			return err
		}
		if all {
			runs = 0
		}
		if len(dirs) > 0 && runs != operator.UsualRuns {
			return wrongUsage("show: -n and --all are not for --journal, which shows all runs")
		}
		if len(dirs) > 0 {
			return p.fromFolders(ctx, dirs, []operator.Job{job}, true, p.printHistory)
		}
		return p.showJob(ctx, p.daemon(), job, runs)
	})
	foldersFlag(c, &dirs)
	c.FlagSet.Func("n", "only the newest runs, so many; each claim of the row begins one", count(&runs, 1, mostRuns))
	c.FlagSet.BoolVar(&all, "all", false, "all runs, however many")
	return c
}

// showJob shows one job, with so many of its runs (0: all).
func (p *program) showJob(ctx context.Context, d *operator.Daemon, job operator.Job, runs int) error {
	s, err := operator.Tell(ctx, d, job, runs, true, p.times(), p.note)
	if err != nil {
		return err
	}
	if p.json() {
		err = p.printStoryJSON(s)
	} else {
		err = p.buffered(func() error { return p.printStory(s) })
	}
	if err != nil {
		return err
	}
	return exit.Join(exit.Why(ctx, errors.Join(s.Failed...)), unexplained(s.Verdict))
}

// printStoryJSON prints a job's page as one object.
func (p *program) printStoryJSON(s *operator.Story) error {
	return p.printJSON(struct {
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
func (p *program) printStory(s *operator.Story) error {
	fmt.Fprintf(p.out, "%s\n\n", p.paint(clean(s.Verdict.Sentence), toneOfReason(s.Verdict.Reason)))
	switch {
	case s.Row != nil:
		for _, c := range s.Columns() {
			fmt.Fprintf(p.out, "%-12s %s\n", c.Name+":", clean(c.Text))
		}
	case s.Read:
		fmt.Fprintln(p.out, "row: none")
	default:
		fmt.Fprintln(p.out, "row: not known, as nobody who was asked could read the table")
	}
	fmt.Fprintln(p.out)
	switch {
	case len(s.Runs) == 0 && s.Unheard:
		fmt.Fprintln(p.out, "history: not known, as not all journals could be read")
	case len(s.Runs) == 0:
		fmt.Fprintln(p.out, "history: none; no journal knows this job")
	default:
		p.printRuns(s)
	}
	for _, output := range s.Outputs() {
		p.printEnd(s.Job.ID, output)
	}
	return nil
}

// printRuns prints the events of a job's runs, and how long things took.
func (p *program) printRuns(s *operator.Story) {
	if s.Earlier {
		fmt.Fprintf(p.out, "earlier runs: jobctl show %d --all\n", s.Job.ID)
	}
	var clocks clocks
	for _, run := range s.Runs {
		for _, e := range run.Events {
			name := ""
			if e.Source.Worker() != "" {
				name = clean(e.Source.Worker()) + "  "
			}
			fmt.Fprintln(p.out, p.paint(fmt.Sprintf("%s  %s%s", clocks.of(p, e.Item.Time), name, e.Text), toneOf(e.Item.Payload)))
		}
	}
	if delay, known := s.Delay(); known {
		fmt.Fprintf(p.out, "\n%s: %s\n", delay.Name, delay.Text)
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
	fmt.Fprintf(p.out, "\n%s\n%s", head, strings.Join(lines, ""))
}

func (p *program) why() *cmd {
	var dirs []string
	c := command("why ID… | T:ID…", "one sentence: where a job is, and what it waits for", func(ctx context.Context, args []string) error {
		jobs, err := jobRefs("why", args, api.MostJobs)
		if err != nil {
			return err
		}
		if len(dirs) > 0 {
			return p.fromFolders(ctx, dirs, jobs, false, p.printNewest)
		}
		return p.sayWhy(ctx, p.daemon(), jobs)
	})
	foldersFlag(c, &dirs)
	return c
}

// foldersFlag lets a command about jobs read journals instead of asking a daemon.
func foldersFlag(c *cmd, dirs *[]string) {
	c.FlagSet.Func("journal", "read this folder of a journal, a worker's or a master's, and ask nobody; more than once for several", folders(dirs))
}

// fromFolders has the story of each job told from the journals in some folders: the newest run, or all of it.
func (p *program) fromFolders(ctx context.Context, dirs []string, jobs []operator.Job, all bool, print func(context.Context, *operator.Journals, *operator.Story) error) error {
	return p.readFolders(ctx, dirs, func(ctx context.Context, j *operator.Journals) error {
		var failed []error
		for _, job := range jobs {
			if job.Target != "" {
				return wrongUsage("job %s:%d: with --journal a job is named by its ID alone", job.Target, job.ID)
			}
			failed = append(failed, print(ctx, j, operator.TellBy(ctx, j, job, all, p.times())))
		}
		return exit.Join(failed...)
	})
}

// printNewest prints the newest of what journals tell of a job.
func (p *program) printNewest(ctx context.Context, j *operator.Journals, s *operator.Story) error {
	j.Failed = nil // they are told here
	if len(s.Runs) == 0 {
		return cmp.Or(errors.Join(s.Failed...), unknownJob(ctx, j, s.Job.ID))
	}
	run := s.Runs[len(s.Runs)-1]
	e := run.Events[len(run.Events)-1]
	if p.json() {
		return exit.Join(p.printJSON(eventJSON(e.Source.Worker(), e.Item)), errors.Join(s.Failed...))
	}
	if j.OfMasters() {
		e.Text += "; " + ofMasters
	}
	at := (&clocks{}).of(p, e.Item.Time)
	fmt.Fprintln(p.out, p.paint(fmt.Sprintf("job %d: %s  %s", s.Job.ID, at, e.Text), toneOf(e.Item.Payload)))
	return errors.Join(s.Failed...)
}

// sayWhy prints a sentence about each job. Where one is not explained, that is the exit code.
func (p *program) sayWhy(ctx context.Context, d *operator.Daemon, jobs []operator.Job) error {
	var unknown []error
	for verdict, err := range operator.Why(ctx, d, jobs, p.times(), p.note) {
		if err == nil && p.json() {
			err = p.printJSON(verdict)
		} else if err == nil {
			_, err = fmt.Fprintln(p.out, p.paint(clean(verdict.Sentence), toneOfReason(verdict.Reason)))
		}
		if err != nil {
			return err
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

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/reason"
	"jobd/journal"
	"jobd/net/api"
)

func (p *program) show() *ffcli.Command {
	all, runs := false, usualTold
	c := command("show", "show [-n RUNS | --all] ID | T:ID", "one job: its row, where it is, and its story from all journals", func(ctx context.Context, args []string) error {
		if err := oneJob("show", "ID or TARGET:ID", args); err != nil {
			return err
		}
		if runs < 1 || runs > mostRuns {
			return wrongUsage("show: -n %d is not allowed; allowed is 1 to %d, and --all for all", runs, mostRuns)
		}
		if all {
			runs = 0
		}
		jobs, err := anyJobs("show", args, 1)
		if err != nil {
			return err
		}
		return p.linked(ctx, func(ctx context.Context, c *client) error {
			if err := c.expect(ctx); err != nil {
				return err
			}
			return p.showJob(ctx, c, jobs[0], runs)
		})
	})
	c.FlagSet.IntVar(&runs, "n", runs, "only the newest runs, so many; each claim of the row begins one")
	c.FlagSet.BoolVar(&all, "all", false, "all runs, however many")
	c.LongHelp = "  jobctl show 5\n  jobctl --master show mail:5\n  jobctl show 5 --output json | jq .row"
	return c
}

// sheet is all that is shown of one job.
type sheet struct {
	*program
	job     jobRef
	verdict reason.Verdict
	row     *api.JobRow
	read    bool // somebody could read the table
	story   *story
	events  []from[journal.Event]
	earlier bool // there are, or may be, events before them
}

// showJob shows one job, with so many of its runs (0: all). A journal that can't be read takes
// nothing from the rest.
func (p *program) showJob(ctx context.Context, c *client, job jobRef, runs int) error {
	e, verdicts, err := p.verdicts(ctx, c, []jobRef{job})
	if err != nil {
		return err
	}
	e.noteSilent(p)
	j := e.journals(p)
	shown := &sheet{program: p, job: job, verdict: verdicts[0], row: e.row(), read: e.read(), story: &story{program: p, journals: j}}
	shown.readStory(ctx, j, runs)
	if err := shown.print(ctx); err != nil {
		return err
	}
	failed := why(ctx, errors.Join(j.failed...))
	if !shown.verdict.Explained() {
		failed = errors.Join(failed, exit.With(exit.Failure, errors.New("")))
	}
	return failed
}

// row is the job's row, as the first worker has it that could read it.
func (e explained) row() *api.JobRow {
	for _, a := range e.answers {
		if len(a.answer.Jobs) == 1 && a.answer.Jobs[0].Row != nil {
			return a.answer.Jobs[0].Row
		}
	}
	return nil
}

// read tells whether anybody could read the table.
func (e explained) read() bool {
	return slices.ContainsFunc(e.answers, func(a told[api.Explained]) bool { return a.err == nil && a.answer.Table == "" })
}

// journals are those of the workers that have answered.
func (e explained) journals(p *program) *journals {
	j := &journals{note: p.note}
	for _, a := range e.answers {
		if a.err == nil {
			j.sources, j.remotes = append(j.sources, a.from), append(j.remotes, a.from)
		}
	}
	return j
}

// print prints the page.
func (s *sheet) print(ctx context.Context) error {
	if s.json() {
		return s.printAsJSON()
	}
	return s.buffered(func() error {
		fmt.Fprintln(s.out, s.paint(clean(s.verdict.Sentence), toneOfReason(s.verdict.Reason)))
		s.printRow()
		if err := s.printStory(ctx); err != nil {
			return err
		}
		s.printOutputs()
		return nil
	})
}

// printAsJSON prints the page as one object.
func (s *sheet) printAsJSON() error {
	events := make([]any, len(s.events))
	for i, e := range s.events {
		events[i] = eventJSON(e.source.worker(), e.item)
	}
	return s.printJSON(struct {
		verdictForm
		Row    *api.JobRow `json:"row"`
		Events []any       `json:"events"`

		Earlier bool `json:"earlier,omitempty"` // there are others before them
	}{formOf(s.job, s.verdict), s.row, events, s.earlier})
}

// printRow prints the row as it is, without what is empty.
func (s *sheet) printRow() {
	fmt.Fprintln(s.out)
	if s.row == nil {
		if s.read {
			fmt.Fprintln(s.out, "row: none")
		} else {
			fmt.Fprintln(s.out, "row: not known, as nobody who was asked could read the table")
		}
		return
	}
	r := s.row
	lines := [][2]string{
		{"target", r.Target},
		{"status", r.Status},
		{"owner", ownerText(r)},
		{"created", s.seconds(r.Created)},
		{"started", s.seconds(r.Started)},
		{"finished", s.seconds(r.Finished)},
		{"result", r.Result},
		{"return code", codeText(r.Code)},
		{"signal", signalText(r)},
		{"stdout", shownSize(r.Stdout)},
		{"stderr", shownSize(r.Stderr)},
	}
	lines = append(lines, s.timeLines(r.Plan)...)
	for _, line := range lines {
		if line[1] != "" {
			fmt.Fprintf(s.out, "%-12s %s\n", line[0]+":", clean(line[1]))
		}
	}
}

// ownerText is what is told of the owner column. Where tokens stand in the column sig, that is one
// column with two meanings.
func ownerText(r *api.JobRow) string {
	if r.Owner == r.Sig && !strings.HasPrefix(r.Owner, "@") {
		return ""
	}
	return r.Owner
}

func codeText(code *int64) string {
	if code == nil {
		return ""
	}
	return strconv.FormatInt(*code, 10)
}

// signalText is what is told of the column sig.
func signalText(r *api.JobRow) string {
	if r.Owner == r.Sig && strings.HasPrefix(r.Sig, "@") {
		return ""
	}
	return r.Sig
}

// shownSize is how much a column of output holds.
func shownSize(text api.JobText) string {
	if text.Size == 0 {
		return ""
	}
	return fmt.Sprintf("%d bytes", text.Size)
}

// seconds is a moment of the table, which has whole seconds: on a terminal as clock has it.
func (p *program) seconds(unix int64) string {
	if unix == 0 {
		return ""
	}
	at := time.Unix(unix, 0)
	if p.brief() {
		return p.clock(at)
	}
	return at.In(p.location).Format(time.DateTime)
}

// printStory prints what the journals tell, and how long things took.
func (s *sheet) printStory(ctx context.Context) error {
	fmt.Fprintln(s.out)
	if len(s.events) == 0 {
		fmt.Fprintln(s.out, "no journal knows anything of it")
		return nil
	}
	if s.earlier {
		fmt.Fprintf(s.out, "earlier runs: jobctl show %d --all\n", s.job.id)
	}
	for _, e := range s.events {
		text, err := s.story.words(ctx, e)
		if err != nil {
			return err
		}
		name := ""
		if e.source.worker() != "" {
			name = clean(e.source.worker()) + "  "
		}
		s.story.last = e.source
		fmt.Fprintln(s.out, s.paint(fmt.Sprintf("%s  %s%s", s.story.clocks.of(s.program, e.item.Time), name, text), toneOf(e.item.Payload)))
	}
	s.untilClaimed()
	s.story.durations()
	return nil
}

// untilClaimed prints how long the row waited until its newest claim, to the second, as the table
// has it. Of one that came at a time it is how late that was; of further attempts it is nothing.
func (s *sheet) untilClaimed() {
	if s.story.timed {
		if s.story.late != "" {
			fmt.Fprintf(s.out, "\nlater than planned: %s\n", s.story.late)
		}
		return
	}
	if s.row == nil || s.row.Created == 0 || s.story.claimed.IsZero() {
		return
	}
	if waited := s.story.claimed.Sub(time.Unix(s.row.Created, 0)).Truncate(time.Second); waited >= 0 {
		fmt.Fprintf(s.out, "\nuntil it was claimed: %v\n", waited)
	}
}

// mostShown is how many lines of a job's output are shown, the last ones.
const mostShown = 20

// printOutputs prints the end of what the job wrote: as the journal has it, which has it whole, or
// else the row.
func (s *sheet) printOutputs() {
	if done := s.story.done; done != nil {
		s.printEnd("stdout", done.Stdout.Text(0, journal.CharsetFull), done.Stdout.Size)
		s.printEnd("stderr", done.Stderr.Text(0, journal.CharsetFull), done.Stderr.Size)
	} else if r := s.row; r != nil {
		s.printEnd("stdout", r.Stdout.Tail, r.Stdout.Size)
		s.printEnd("stderr", r.Stderr.Tail, r.Stderr.Size)
	}
}

// printEnd prints the last lines of a text that has so many bytes in all.
func (s *sheet) printEnd(name, text string, size int64) {
	if size == 0 {
		return
	}
	lines := strings.SplitAfter(withNewline(text), "\n")
	lines = lines[:len(lines)-1] // which is empty
	head := fmt.Sprintf("%s: %d bytes", name, size)
	if len(lines) > mostShown || int64(len(text)) < size {
		lines = lines[max(0, len(lines)-mostShown):]
		head += fmt.Sprintf("; the last %d lines, all of it: jobctl tail %d", len(lines), s.job.id)
	}
	fmt.Fprintf(s.out, "\n%s\n%s", head, strings.Join(lines, ""))
}

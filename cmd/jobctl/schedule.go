package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/layout"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/exec/schedule"
	"jobd/net/api"
)

// scheduleCommand is the command whose words may begin with @ without being a profile.
const scheduleCommand = "schedule"

// cronWords are the schedules that begin with @, and what else cron knows so.
func cronWords() []string {
	return []string{"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually", "@reboot"}
}

// How many runs of a schedule are told.
const (
	usualRuns = 10
	mostRuns  = 1000
)

func (p *program) schedule() *cmd {
	zone, target := "", ""
	n, list := -1, false
	c := command("schedule [TEXT] [--zone Z] [-n N] | --list [--target T] | pause|continue ID…", "explain a schedule: its next runs, and what happens when the clocks change; without a text, list the rows that recur; pause holds rows that recur, and keeps them", func(ctx context.Context, args []string) error {
		if h, is := scheduleHands[firstWord(args)]; is {
			return p.plan(ctx, h, args[1:])
		}
		text := strings.Join(args, " ")
		if list = list || len(args) == 0; list {
			return p.listRecurring(ctx, target, max(n, 0))
		}
		if n < 0 {
			n = usualRuns
		}
		return p.explainSchedule(text, cmp.Or(zone, "UTC"), n)
	})
	checkFirst(c, func(args []string) error {
		switch {
		case list && len(args) > 0:
			return wrongUsage("schedule: --list takes no schedule, got %q", strings.Join(args, " "))
		case len(args) > 0 && target != "":
			return wrongUsage("schedule: --target is for --list")
		case len(args) == 0 && zone != "":
			return wrongUsage("schedule: --zone is for a schedule that is to be explained")
		}
		return nil
	})
	c.FlagSet.StringVar(&zone, "zone", zone, "the zone in which it is read, as Europe/Berlin (default: UTC)")
	c.FlagSet.Func("n", "how many runs are told (default: 10); with --list how many rows (default: all)", count(&n, 0, mostRuns))
	c.FlagSet.BoolVar(&list, "list", false, "list the rows that recur, with their last and next run")
	c.FlagSet.StringVar(&target, "target", "", "with --list: only rows of this target")
	return c
}

// scheduleHands are what is done by hand to rows that recur.
var scheduleHands = map[string]hand{
	"pause":    {"schedule pause", api.PauseSchedule.Name, "paused", "WAS DUE"},
	"continue": {"schedule continue", api.ContinueSchedule.Name, "continued", "NEXT RUN"},
}

func firstWord(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// plannedRun is a planned start, as JSON.
type plannedRun struct {
	At    int64  `json:"at"`    // unix seconds
	Local string `json:"local"` // the same as the zone's clocks show it
}

// clockChange is a change of clocks, as JSON.
type clockChange struct {
	At     int64  `json:"at"` // the first second after it
	Before string `json:"before"`
	After  string `json:"after"`
	Effect string `json:"effect"`
}

// scheduleForm is all that is told of a schedule, as JSON.
type scheduleForm struct {
	Schedule    string       `json:"schedule"` // in its canonical form
	Zone        string       `json:"zone"`
	Explanation string       `json:"explanation"`
	Next        []plannedRun `json:"next"`
	Change      *clockChange `json:"change"` // null: none is known
}

// explainSchedule says when a schedule is due. No daemon is asked: what a worker would do is the same.
func (p *program) explainSchedule(text, zoneName string, n int) error {
	zone, err := schedule.Zone(zoneName)
	if err != nil {
		return err
	}
	plan, err := schedule.Parse(text)
	if err != nil {
		return err
	}
	form := scheduleForm{Schedule: plan.String(), Zone: zone.String(), Next: []plannedRun{}}
	for at := p.now().Unix(); len(form.Next) < n; {
		if at = plan.Next(at, zone); at == 0 {
			break
		}
		form.Next = append(form.Next, plannedRun{at, time.Unix(at, 0).In(zone).Format(time.RFC3339)})
	}
	change, known := schedule.NextChange(p.now().Unix(), zone)
	form.Explanation = plan.Explain(known)
	if known {
		form.Change = &clockChange{change.At, shown(change.At, change.Before), shown(change.At, change.After), plan.AtChange(change)}
	}
	if p.json() {
		return p.printJSON(form)
	}
	_, elapsed := plan.Every()
	p.printSchedule(form, zone, elapsed)
	return nil
}

// shown is what clocks that are so many seconds ahead of UTC show at a moment.
func shown(at int64, ahead int) string {
	return time.Unix(at, 0).In(time.FixedZone("", ahead)).Format(time.RFC3339)
}

// printSchedule prints it for people.
func (p *program) printSchedule(form scheduleForm, zone *time.Location, elapsed bool) {
	const withDay = "Mon 2006-01-02 15:04:05 -07:00"
	fmt.Fprintf(p.out, "%s\n\n%s\n\n", form.Schedule, strings.Join(layout.Wrap(form.Explanation, layout.Width-2), "\n"))
	counted := ""
	if elapsed {
		counted = ", counted from now"
	}
	fmt.Fprintf(p.out, "next runs%s, in %s:\n", counted, form.Zone)
	for _, run := range form.Next {
		at := time.Unix(run.At, 0)
		fmt.Fprintf(p.out, "  %s  in %s\n", at.In(zone).Format(withDay), screen.Length(at.Sub(p.now())))
	}
	if len(form.Next) == 0 {
		fmt.Fprintln(p.out, "  none before the year 2100")
	}
	fmt.Fprintln(p.out)
	if form.Change == nil {
		fmt.Fprintf(p.out, "clocks in %s: no change is known\n", form.Zone)
		return
	}
	at := time.Unix(form.Change.At, 0)
	fmt.Fprintf(p.out, "clocks in %s change on %s,\nfrom %s to %s:\n%s\n", form.Zone, at.In(zone).Format("Mon 2006-01-02"),
		wallClock(form.Change.Before), wallClock(form.Change.After), strings.Join(layout.Wrap(form.Change.Effect, layout.Width-2), "\n"))
}

// wallClock is the time of day of a moment, and how far its clock is ahead of UTC.
func wallClock(moment string) string {
	at, err := time.Parse(time.RFC3339, moment)
	if err != nil {
		return moment
	}
	return at.Format("15:04 -07:00")
}

// listRecurring lists the rows that recur, so many at most (0: all).
func (p *program) listRecurring(ctx context.Context, target string, most int) error {
	all, errs, err := operator.Recur(ctx, p.daemon(), target, most)
	switch {
	case err != nil:
		return err
	case len(all) == 0 && len(errs) > 0:
		return errors.Join(errs...)
	case len(all) == 0:
		p.noteUnserved(ctx, target)
	}
	return errors.Join(append([]error{p.printRecurring(all)}, errs...)...)
}

// printRecurring prints rows that recur.
func (p *program) printRecurring(all []operator.Recurring) error {
	if p.json() {
		if all == nil {
			all = []operator.Recurring{}
		}
		return p.printJSON(map[string]any{"rows": all})
	}
	p.print(p.recurringTable(all))
	for _, row := range all {
		if row.Error != "" {
			fmt.Fprintf(p.err, "jobctl: job %d: %s\n", row.Job, clean(row.Error))
		}
	}
	return nil
}

// recurringTable has a row for each row that recurs: on a terminal with zones and results below
// schedules and times, so that it fits 80 columns and none of that is cut.
func (p *program) recurringTable(all []operator.Recurring) table {
	t := table{
		head: []string{"JOB", "TARGET", "SCHEDULE", "LAST RUN", "RESULT", "NEXT RUN"}, none: "no row recurs",
		elastic: "TARGET|SCHEDULE",
	}
	if p.terminal {
		t.head = slices.Delete(t.head, 4, 5)
	}
	for _, row := range all {
		when, next := row.NextText(p.times())
		last := p.seconds(row.Finished)
		if p.terminal {
			t.add(row.Job, row.Target, lines(row.ScheduleText(false), row.ZoneText()), lines(last, row.ResultText()), lines(when, next))
			continue
		}
		t.add(row.Job, row.Target, row.ScheduleText(true), last, row.ResultText(),
			strings.TrimSpace(when+" "+next))
	}
	return t
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/layout"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/exec/schedule"
	"jobd/net/api"
)

func (p *program) queue() *cmd {
	return command("queue [T…]", "waiting and running jobs of these targets, or of all, and when they will be done at the pace of the last minute", func(ctx context.Context, args []string) error {
		return p.showQueue(ctx, p.daemon(), args)
	})
}

// showQueue prints how targets stand.
func (p *program) showQueue(ctx context.Context, c *operator.Daemon, targets []string) error {
	s, err := operator.TakeCensus(ctx, c)
	if err != nil {
		return err
	}
	all, err := wanted(s, targets)
	if err != nil {
		return errors.Join(err, s.Silent(), s.Down())
	}
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.Target
	}
	s.Others = len(targets) == 0
	s.Count(ctx, names)
	for _, name := range slices.Sorted(maps.Keys(s.Waiting)) {
		if !slices.Contains(names, name) {
			all = append(all, operator.Tally{Target: name}) // which no worker serves that was asked
		}
	}
	list := make([]queued, len(all))
	for i, t := range all {
		list[i] = queuedOf(t, s.Waiting)
	}
	if p.json() {
		p.printJSON(map[string]any{"targets": list})
	} else {
		p.queueTable(list).print()
	}
	return exit.Join(slices.Concat([]error{s.Silent(), s.Down()}, s.Older(), s.Why)...)
}

// wanted gives the tallies of some targets, or of all: those that were poked and that nobody serves
// among them.
func wanted(s *operator.Census, targets []string) ([]operator.Tally, error) {
	all := s.Tallies()
	for _, name := range s.Unserved() {
		all = append(all, operator.Tally{Target: name})
	}
	slices.SortFunc(all, func(a, b operator.Tally) int { return strings.Compare(a.Target, b.Target) })
	if len(targets) == 0 {
		return all, nil
	}
	known := make([]string, len(all))
	for i, t := range all {
		known[i] = t.Target
	}
	for _, name := range targets {
		if !slices.Contains(known, name) {
			err := fmt.Errorf("no worker serves target '%s'", clean(name))
			if near := conf.Nearest(name, known); near != "" {
				err = fmt.Errorf("%w; the nearest that is served is '%s'", err, clean(near))
			}
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(t operator.Tally) bool { return !slices.Contains(targets, t.Target) }), nil
}

// unserved is the error of a command that has found nothing of a target ("": of any) which no worker serves: its
// name may be misspelt.
func (p *program) unserved(ctx context.Context, target string) error {
	if target == "" {
		return nil
	}
	s, err := operator.TakeCensus(ctx, p.daemon())
	if err != nil || s.Silent() != nil {
		return nil // nobody can tell
	}
	_, err = wanted(s, []string{target})
	return err
}

// queued is a target as queue prints it. What nobody can tell is nil.
type queued struct {
	Target     string `json:"target"`
	Workers    int    `json:"workers"`     // that serve it
	Paused     int    `json:"paused"`      // how many of them have it paused
	Waiting    *int   `json:"waiting"`     // rows
	More       bool   `json:"waitingMore"` // there are more than that
	Oldest     *int64 `json:"oldest"`      // when the first of them was made, in unix milliseconds
	Running    *int   `json:"running"`
	Slots      int    `json:"slots"`
	Prefetched *int   `json:"prefetched"`
	Started    *int   `json:"startedLastMinute"`
	Ended      *int   `json:"endedLastMinute"`
	Failed     *int   `json:"failedLastMinute"`
	EmptyIn    *int64 `json:"emptyInSeconds"` // at the pace of the last minute; nil: never, paused, can't be started, or not known

	Due     int   `json:"due,omitempty"`     // delayed rows that are due
	DueMore bool  `json:"dueMore,omitempty"` // there are more than that
	NextDue int64 `json:"nextDue,omitempty"` // when the next delayed row is due, or was, in unix milliseconds

	counted api.WaitingTarget // the same, as it was counted
	empty   string
}

func queuedOf(t operator.Tally, waiting map[string]api.WaitingTarget) queued {
	q := queued{Target: t.Target, Workers: t.Workers, Paused: t.Paused, Slots: t.Slots}
	w, counted := waiting[t.Target]
	if q.empty = t.EmptyText(w, counted); counted {
		q.Waiting, q.More = &w.Count, w.More
		q.Due, q.DueMore, q.NextDue, q.counted = w.Due, w.DueMore, w.NextDue*1000, w
		if w.Oldest > 0 {
			oldest := w.Oldest * 1000
			q.Oldest = &oldest
		}
	}
	if t.Untold == 0 {
		q.Running, q.Prefetched, q.Started, q.Ended, q.Failed = &t.Running, &t.Prefetched, &t.Started, &t.Ended, &t.Failed
	}
	if q.Waiting == nil || t.Untold > 0 {
		return q
	}
	if in, known := t.EmptyIn(w); known {
		seconds := int64(in / time.Second)
		q.EmptyIn = &seconds
	}
	return q
}

// queueTable has a line for each target.
func (p *program) queueTable(list []queued) *table {
	delays := slices.ContainsFunc(list, func(q queued) bool { return q.NextDue > 0 }) // what runs, and of how many slots, stands in one column then
	t := p.table("no targets", "TARGET|-STARTED|-ENDED", "TARGET", "WAITING", "OLDEST", when(delays, "DUE"), when(delays, "NEXT DUE"), "RUNNING",
		when(!delays, "SLOTS"), when(!delays, "STARTED"), "ENDED", "EMPTY IN")
	for _, q := range list {
		waiting, oldest := p.waitingCells(q.counted, q.Waiting != nil)
		running := orUntold(q.Running)
		if delays {
			running += fmt.Sprintf("/%d", q.Slots)
		}
		due := operator.Counted(q.Due, q.DueMore)
		t.add(q.Target, waiting, oldest, due, p.dueIn(q.counted.NextDue, q.counted.Now), running, q.Slots, orUntold(q.Started), orUntold(q.Ended), q.empty)
	}
	return t
}

func orUntold(n *int) string {
	if n == nil {
		return untold
	}
	return fmt.Sprint(*n)
}

// dueIn is how far off the next delayed row is, which may be due already, where the clock by which it
// is due says now; both in unix seconds. 0: there is none, or nobody has told.
func (p *program) dueIn(next, now int64) string {
	if next == 0 {
		return ""
	}
	if now == 0 {
		now = p.now().Unix()
	}
	left := time.Duration(next-now) * time.Second
	if left <= 0 {
		return "now"
	}
	return "in " + screen.Length(left)
}

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
	c := command("schedule [TEXT] [--zone Z] [-n N] | --list [--target T] | pause|continue ID…", "explain a schedule and list its next runs; without a text, list the rows that recur; pause holds such rows, continue lets them go on", func(ctx context.Context, args []string) error {
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
			return wrongUsage("schedule: --zone needs a schedule to explain")
		}
		return nil
	})
	c.FlagSet.StringVar(&zone, "zone", zone, "the zone in which it is read, as Europe/Berlin (default: UTC)")
	c.value("n", "how many runs are shown (default: 10); with --list how many rows (default: all)", conf.Int(&n, 0, mostRuns))
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

// scheduleForm is all that is told of a schedule, as JSON.
type scheduleForm struct {
	Schedule    string       `json:"schedule"` // in its canonical form
	Zone        string       `json:"zone"`
	Explanation string       `json:"explanation"`
	Next        []plannedRun `json:"next"`
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
	form.Explanation = plan.Explain(zone != time.UTC)
	if p.json() {
		p.printJSON(form)
		return nil
	}
	_, elapsed := plan.Every()
	p.printSchedule(form, zone, elapsed)
	return nil
}

// printSchedule prints it for people.
func (p *program) printSchedule(form scheduleForm, zone *time.Location, elapsed bool) {
	const withDay = "Mon 2006-01-02 15:04:05 -07:00"
	p.say("%s\n\n%s\n\n", form.Schedule, strings.Join(layout.Wrap(form.Explanation, layout.Width-2), "\n"))
	counted := ""
	if elapsed {
		counted = ", counted from now"
	}
	p.say("next runs%s, in %s:\n", counted, form.Zone)
	for _, run := range form.Next {
		at := time.Unix(run.At, 0)
		p.say("  %s  in %s\n", at.In(zone).Format(withDay), screen.Length(at.Sub(p.now())))
	}
	if len(form.Next) == 0 {
		p.say("  none before the year 2100\n")
	}
}

// listRecurring lists the rows that recur, so many at most (0: all).
func (p *program) listRecurring(ctx context.Context, target string, most int) error {
	all, errs, err := operator.Recur(ctx, p.daemon(), target, nil, most)
	switch {
	case err != nil:
		return err
	case len(all) == 0 && len(errs) > 0:
		return exit.Join(errs...)
	}
	p.printRecurring(all)
	if len(all)+len(errs) == 0 {
		return p.unserved(ctx, target)
	}
	return exit.Join(errs...)
}

// printRecurring prints rows that recur.
func (p *program) printRecurring(all []operator.Recurring) {
	if p.json() {
		p.printJSON(map[string]any{"rows": append([]operator.Recurring{}, all...)})
		return
	}
	p.recurringTable(all).print()
	for _, row := range all {
		if row.Error != "" {
			fmt.Fprintf(p.err, "jobctl: job %d: %s\n", row.Job, clean(row.Error))
		}
	}
}

// recurringTable has a row for each row that recurs: on a terminal with zones and results below
// schedules and times, so that it fits 80 columns and none of that is cut.
func (p *program) recurringTable(all []operator.Recurring) *table {
	t := p.table("no row recurs", "TARGET|SCHEDULE", "JOB", "TARGET", "SCHEDULE", "LAST RUN", when(!p.terminal, "RESULT"), "NEXT RUN")
	for _, row := range all {
		at, next := row.NextText(p.times())
		last := p.seconds(row.Finished)
		if p.terminal {
			t.add(row.Job, row.Target, lines(row.ScheduleText(false), row.ZoneText()), lines(last, row.ResultText()), "", lines(at, next))
			continue
		}
		t.add(row.Job, row.Target, row.ScheduleText(true), last, row.ResultText(),
			strings.TrimSpace(at+" "+next))
	}
	return t
}

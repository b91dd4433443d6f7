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

	"github.com/dustin/go-humanize"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/layout"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/net/api"
)

func (p *program) status() *cmd {
	var watch bool
	c := command("status [--watch]", "the state of the daemon, since when, and what waits", func(ctx context.Context, args []string) error {
		return p.watched(ctx, watch, func(ctx context.Context, _ *operator.Daemon) error {
			return p.showCensus(ctx, func(s *operator.Census) {
				s.Others = s.Master != nil
				s.Count(ctx, append(s.Targets(), s.Unserved()...)) // as JSON the table is asked nothing
				p.printCensus(s)
			})
		})
	})
	c.FlagSet.BoolVar(&watch, "watch", false, "repeat it every 2 s, until interrupted")
	return c
}

// printCensus prints the page of a worker, or of a master: who that is and how it stands with everything
// that it needs, or its workers; then the targets, and what is wrong.
func (p *program) printCensus(s *operator.Census) {
	tallies := s.Tallies()
	if s.Master == nil {
		p.printHead(s.Workers[0].Value, p.daemon().Where())
		p.say("\n")
	} else {
		p.fleetTable(s).print()
		p.say("\n%s\nmaster's resident memory: %s\n\n", sumText(s, tallies), humanize.IBytes(s.Master.Memory.RSS))
	}
	p.tallyTable(s, tallies).print()
	p.printExecutors(s)
	p.printByHand(s)
	p.printProblems(s)
	for _, w := range s.Workers {
		if w.Err == nil {
			p.printOdds(p.whose(s, w), w.Value)
		}
	}
}

// whose begins what is said of one of a master's workers.
func (p *program) whose(s *operator.Census, w operator.Answer[*workerStatus]) string {
	if s.Master == nil {
		return ""
	}
	return "worker " + clean(w.From.Name) + ": "
}

// printHead prints all but the targets. What a worker does not tell is left out.
func (p *program) printHead(s *workerStatus, address string) {
	line := func(format string, args ...any) { p.say(format+"\n", args...) }
	if s.PID > 0 {
		line("worker %s, version %s, process %d", clean(s.Name), clean(s.Version), s.PID)
		line("up: %s, since %s", p.ago(time.UnixMilli(s.Started)), p.clock(time.UnixMilli(s.Started)))
	} else {
		line("worker at %s", cmp.Or(clean(s.Name), address))
	}
	if s.CommitDate != "" {
		line("built of: commit %s, of %s", clean(s.Commit), clean(s.CommitDate))
	}
	if !operator.TellsMore(s) {
		line("it reports no more, because it is an older jobd, or the original")
	}
	if d := s.Database; d != nil {
		line("database: %s", p.standingText(*d, "reachable", "away"))
	}
	if s.Server != "" {
		line("database server: %s", clean(s.Server))
	}
	if s.Mark != "" {
		line("worker id in its claims: %s", clean(s.Mark))
	}
	if j := s.Journal; j != nil {
		behind := ""
		if n := operator.Owed(j); n > 0 {
			behind = ", of which the table does not show " + humanize.Comma(n)
		}
		line("journal: %s%s; %s in %s", screen.Count(int(j.Events), "event"), behind, humanize.IBytes(onDisk(j)), screen.Count(j.Segments, "segment"))
		if j.Full != "" {
			line("journal's disk: full%s", p.sinceSuffix(j.FullSince))
		}
	}
	if r := s.Runner; r != nil {
		text := p.standingText(r.Standing, "connected", "not connected")
		if r.PID > 0 {
			text = fmt.Sprintf("process %d, %s", r.PID, text)
		}
		line("runner: %s", text)
	}
	if operator.TellsMore(s) && s.Launcher == nil && !slices.ContainsFunc(s.Executors, func(e api.ExecutorStatus) bool { return e.Unready != "" }) {
		line("launcher: no fault is known")
	}
	for _, m := range s.Masters {
		if m.Registered {
			line("master %s: registered%s", clean(m.Address), p.sinceSuffix(m.Since))
		}
	}
	line("manual jobs that a client waits for: %d\nresident memory: %s", s.Clients, humanize.IBytes(s.Memory.RSS))
}

// sinceSuffix is the end of a sentence about how long something has lasted; "" where that is not
// told.
func (p *program) sinceSuffix(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return " since " + p.clock(since)
}

// standingText says whether something is there, and since when; why it is not stands below.
func (p *program) standingText(s api.Standing, there, gone string) string {
	if !s.Reachable {
		there = gone
	}
	return there + p.sinceSuffix(s.Since)
}

// untold stands where a worker of an older version, or the original, can't tell.
const untold = "?"

// tallyTable has a line for each target, added up over the workers of a master; of a worker that can't
// tell more, what it tells.
func (p *program) tallyTable(s *operator.Census, tallies []operator.Tally) *table {
	if s.Master == nil && !operator.TellsMore(s.Workers[0].Value) {
		return p.targetTable(s.Workers[0].Value)
	}
	t := p.table("no targets", "TARGET|-PREFETCHED|-WORKERS", "TARGET", when(s.Master != nil, "WORKERS"), "SLOTS", "PREFETCHED", "WAITING", "OLDEST",
		when(s.Delays(), "NEXT DUE"), "PAUSED")
	for _, one := range tallies {
		running, prefetched := fmt.Sprint(one.Running), fmt.Sprint(one.Prefetched)
		if one.Untold > 0 {
			running, prefetched = untold, untold
		}
		w, counted := s.Waiting[one.Target]
		waiting, oldest := p.waitingCells(w, counted)
		t.add(one.Target, one.Workers, fmt.Sprintf("%s/%d", running, one.Slots), prefetched, waiting, oldest,
			p.dueIn(s.NextDue(one.Target)), p.pausedText(s, one))
	}
	return t
}

// pausedText tells for how long a target is paused, or on how many of the workers.
func (p *program) pausedText(s *operator.Census, t operator.Tally) string {
	switch {
	case t.Paused == 0:
		return "no"
	case s.Master != nil:
		return fmt.Sprintf("%d of %d", t.Paused, t.Workers)
	case t.PausedAt.IsZero():
		return "yes"
	}
	return "for " + p.ago(t.PausedAt)
}

// waitingCells are how many rows of a target wait, and for how long the oldest does.
func (p *program) waitingCells(w api.WaitingTarget, counted bool) (count, oldest string) {
	switch {
	case !counted:
		return untold, untold
	case w.Count == 0:
	case w.Oldest == 0:
		oldest = untold
	default:
		oldest = p.ago(time.Unix(w.Oldest, 0))
	}
	return operator.Counted(w.Count, w.More), oldest
}

// printByHand says what operators have set until the next reload or restart: pauses, with since when
// and on whose behalf, and slots that the configuration gives otherwise.
func (p *program) printByHand(s *operator.Census) {
	var lines strings.Builder
	otherwise := map[string][]string{} // workers by what is said of them
	for _, w := range s.Workers {
		if w.Err != nil {
			continue
		}
		for name, t := range w.Value.Targets {
			if s.Master == nil && t.Paused && t.PausedSince > 0 {
				text := fmt.Sprintf("target %s is paused since %s by %s", clean(name), p.clock(time.UnixMilli(t.PausedSince)), clean(t.PausedBy))
				otherwise[text] = nil
			}
			if t.Configured != nil {
				text := fmt.Sprintf("target %s has %s until the next reload or restart: %s", clean(name), screen.Count(t.Concurrency, "slot"), inFile(*t.Configured))
				otherwise[text] = append(otherwise[text], w.From.Name)
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(otherwise)) {
		if workers := otherwise[text]; s.Master != nil {
			text += " (on " + cleaned(workers[:min(len(workers), mostTold)])
			if more := len(workers) - mostTold; more > 0 {
				text += fmt.Sprintf(" and %d more", more)
			}
			text += ")"
		}
		fmt.Fprintln(&lines, text)
	}
	p.paragraph(lines.String())
}

// mostTold is how many workers are named of whom the same is said.
const mostTold = 5

func inFile(slots int) string {
	if slots == 0 {
		return "the configuration does not name it"
	}
	return fmt.Sprintf("the configuration says %d", slots)
}

// ago is how long ago something was, in its two largest units.
func (p *program) ago(at time.Time) string { return screen.Length(p.now().Sub(at)) }

// printOdds prints what is not settled, and settles by itself or needs somebody's look.
func (p *program) printOdds(whose string, s *workerStatus) {
	if n := operator.Quarantined(s); n > 0 {
		p.say("\n%srows quarantined, and tried again until they can be changed: %s\n", whose, humanize.Comma(int64(n)))
		t := p.table("", "TARGET|REASON", "JOB", "TARGET", "SINCE", "REASON")
		for _, row := range s.Quarantined {
			t.add(row.Job, row.Target, p.clock(row.Since), row.Reason)
		}
		if t.count > 0 {
			t.print()
		}
		if more := n - len(s.Quarantined); more > 0 && more < n {
			p.say("and %s more\n", humanize.Comma(int64(more)))
		}
	}
	if s.ClaimsInDoubt > 0 {
		p.say("\n%sclaims that may or may not have been committed: %s\n", whose, humanize.Comma(int64(s.ClaimsInDoubt)))
	}
	if s.UnownedRows > 0 {
		p.say("\n%srows of its targets that are under way, and that no worker has claimed: %s\n", whose, humanize.Comma(int64(s.UnownedRows)))
	}
}

// printExecutors prints how those stand that run jobs otherwise than in a process for each; nothing
// where there are none, or where workers are older and do not tell. A worker's name is shown where
// there may be several.
func (p *program) printExecutors(s *operator.Census) {
	t := p.table("", "NAME|TARGET|REPLACED",
		when(s.Master != nil, "NAME"), "TARGET", "EXECUTOR", "PROCESSES", "READY", "BUSY", "BOOTING", "JOBS", "REPLACED")
	for _, w := range s.Workers {
		if w.Err != nil || w.Value == nil {
			continue
		}
		for i := range w.Value.Executors {
			e := &w.Value.Executors[i]
			processes, ready, booting := fmt.Sprint(e.Processes), fmt.Sprint(e.Ready), fmt.Sprint(e.Booting)
			if !e.Pooled() { // requests have no processes
				processes, ready, booting = "", "", ""
			}
			if t.count == 0 {
				p.say("\n")
			}
			t.add(w.From.Name, e.Target, e.Mode, processes, ready, e.Busy, booting,
				humanize.Comma(e.Jobs), replacedText(e.Recycled))
		}
	}
	if t.count > 0 {
		t.print()
	}
}

// replacedText is how many processes were replaced, and why, the most frequent reason first.
func replacedText(by map[string]int64) string {
	reasons := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })
	all, texts := int64(0), make([]string, 0, len(reasons))
	for _, reason := range reasons {
		all += by[reason]
		texts = append(texts, fmt.Sprintf("%s %s", reason, humanize.Comma(by[reason])))
	}
	if all == 0 {
		return "0"
	}
	return fmt.Sprintf("%s (%s)", humanize.Comma(all), strings.Join(texts, ", "))
}

// printProblems prints what is wrong, each cause once, behind the names of the workers that have
// it, and what else workers say.
func (p *program) printProblems(s *operator.Census) {
	var all []string
	workers := map[string][]string{}
	add := func(text, worker string) {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
		if worker != "" {
			workers[text] = append(workers[text], clean(worker))
		}
	}
	for _, problem := range s.Problems(p.times()) {
		text, whose := strings.CutPrefix(problem.Text, "worker "+clean(problem.Worker)+": ")
		if problem.Code != "quarantined" { // the rows are listed
			add(text, when(whose, problem.Worker))
		}
	}
	ready := true
	for _, w := range s.Workers {
		if w.Err == nil {
			ready = ready && operator.Ready(w.Value)
			p.tellsBesides(w.Value, s.Master != nil, func(text string) { add(text, w.From.Name) })
		}
	}
	for _, err := range s.Why {
		if ready { // else it is known why
			add("the number of waiting rows is not known: "+clean(err.Error()), "")
		}
	}
	var lines strings.Builder
	for _, text := range all {
		if names := workers[text]; len(names) > 0 {
			text = "worker" + when(len(names) > 1, "s") + " " + strings.Join(names, ", ") + ": " + text
		}
		if p.terminal {
			text = strings.Join(layout.Wrap(text, cmp.Or(p.columns(), layout.Width)-len(indent)), "\n"+indent)
		}
		lines.WriteString(text + "\n")
	}
	p.paragraph(lines.String())
}

// tellsBesides gives what a worker tells beside its troubles: why nothing is claimed for targets,
// while it takes work; whose processes answered in another's name; that it can't tell more.
func (p *program) tellsBesides(s *workerStatus, ofMaster bool, add func(text string)) {
	for _, target := range slices.Sorted(maps.Keys(s.Targets)) {
		why := s.Targets[target].Why
		said := slices.ContainsFunc(s.Executors, func(e api.ExecutorStatus) bool {
			return e.Target == target && e.Unready != "" && strings.Contains(why, e.Unready)
		})
		if why != "" && !said && operator.Ready(s) {
			add(clean("nothing is claimed for target " + target + ": " + why))
		}
	}
	for i := range s.Executors {
		if e := &s.Executors[i]; e.Stranger != "" {
			add(clean(fmt.Sprintf("target %s, %s: %s", e.Target, p.clock(time.UnixMilli(e.StrangerAt)), e.Stranger)))
		}
	}
	if ofMaster && !operator.TellsMore(s) {
		add("it reports no more, because it is an older jobd, or the original")
	}
}

// indent stands before the further lines of a paragraph.
const indent = "    "

// healthCommand is the command whose exit codes are those of Nagios.
const healthCommand = "health"

func (p *program) health() *cmd {
	var limits operator.Limits
	c := command("health", "for Nagios and its like: one line, and exit code 0, 1, 2 or 3 for well, warning, critical and unknown", func(ctx context.Context, args []string) error {
		h, err := operator.HealthOf(ctx, p.daemon(), limits, p.now())
		if err != nil {
			return err
		}
		p.printHealth(h)
		if h.State == operator.OK {
			return nil
		}
		return exit.With(int(h.State), errTold)
	})
	c.value("max-age", "critical if the oldest row of a target has waited longer; default: a warning from 15m on, critical from 1h on", conf.Duration(&limits.MaxAge, time.Second))
	c.value("max-lag", "critical if the table has been behind the journal for longer; default: not judged", conf.Duration(&limits.MaxLag, time.Second))
	return c
}

// printHealth prints one line.
func (p *program) printHealth(h *operator.Health) {
	problems := make([]string, len(h.Problems))
	for i, problem := range h.Problems {
		problems[i] = problem.Text
	}
	if !p.json() {
		p.say("%s\n", healthLine(h, problems))
		return
	}
	p.printJSON(map[string]any{
		"state": strings.ToLower(h.State.String()), "code": int(h.State), "daemon": h.Who,
		"problems": problems, "notes": append([]string{}, h.Notes...),
	})
}

// errTold is the error of a run that has told all that there is to tell.
var errTold = errors.New("")

// healthLine is the line: what is wrong, with "; " behind each, and how it is, without a bar, behind which monitoring
// expects numbers.
func healthLine(h *operator.Health, problems []string) string {
	text := strings.Join(problems, "; ")
	if notes := strings.Join(h.Notes, ", "); notes != "" {
		text += when(text != "", "; ") + notes
	}
	line := "JOBD " + h.State.String() + " - " + h.Who + ": " + cmp.Or(text, "it is well")
	return strings.ReplaceAll(strings.Join(strings.Fields(line), " "), "|", "/")
}

// unknownUsage gives the errors of a wrong command line or configuration the exit code that means
// unknown, where the command is health: 2, which they have else, would be critical.
func unknownUsage(root *cmd, args []string, err error) error {
	at := slices.IndexFunc(args, func(word string) bool { return slices.Contains(names(root), word) })
	if exit.Code(err) == exit.Usage && !errors.Is(err, errTold) && at >= 0 && args[at] == healthCommand {
		return exit.With(int(operator.Unknown), err)
	}
	return err
}

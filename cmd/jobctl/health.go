package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	jobnet "jobd/net"
	"jobd/net/api"
)

// healthCommand is the command whose exit codes are those of Nagios.
const healthCommand = "health"

// state is how Nagios and its like want to be told: it is the exit code.
type state int

const (
	stateOK state = iota
	stateWarning
	stateCritical
	stateUnknown
)

// String is the word for it.
func (s state) String() string { return [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[s] }

// condition is what health tells.
type condition struct {
	state    state
	who      string   // the daemon that was asked
	problems []string // the worst first
	notes    []string // what there is to tell beside them
	numbers  []figure
}

// find adds a problem.
func (v *condition) find(s state, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s > v.state {
		v.state = s
		v.problems = append([]string{text}, v.problems...)
		return
	}
	v.problems = append(v.problems, text)
}

func (p *program) health() *cmd {
	var limits limits
	c := command("health", "for Nagios and its like: one line, and exit code 0, 1, 2 or 3 for well, warning, critical and unknown", func(ctx context.Context, args []string) error {
		s, err := operator.TakeCensus(ctx, p.daemon())
		v := &condition{who: p.daemon().Where()}
		switch {
		case err == nil:
			s.Count(ctx, append(s.Targets(), s.Unserved()...))
			limits.judge(v, s, p.now())
		case exit.Interrupted(ctx):
			return exit.Why(ctx, err)
		default:
			v.find(stateOf(err), "%s", strings.TrimPrefix(clean(err.Error()), v.who+": "))
		}
		return p.printHealth(v)
	})
	c.FlagSet.Var(lengthFlag{length: &limits.maxAge, least: time.Second}, "max-age", "critical where the oldest row of a target has waited longer; a warning from 15m, critical from 1h on, if not given")
	c.FlagSet.Var(lengthFlag{length: &limits.maxLag, least: time.Second}, "max-lag", "critical where the table has been behind the journal for longer; not judged if not given")
	return c
}

// stateOf is how bad it is that there is no answer: a daemon that can't be reached or does not
// answer is critical; one that says no, for want of the password, say, leaves unknown how it is.
func stateOf(err error) state {
	var refused *jobnet.RemoteError
	switch {
	case exit.Code(err) == exit.Connect:
		return stateCritical
	case exit.Code(err) == exit.Usage, operator.IsPassword(err), errors.As(err, &refused):
		return stateUnknown
	}
	if operator.Unanswered(err) {
		return stateCritical
	}
	return stateUnknown
}

// printHealth prints one line, and gives the error that ends the program with its exit code.
func (p *program) printHealth(v *condition) error {
	if p.json() {
		numbers := make(map[string]*float64, len(v.numbers))
		for _, n := range v.numbers {
			numbers[n.name] = &n.value
			if n.lost {
				numbers[n.name] = nil
			}
		}
		err := p.printJSON(map[string]any{
			"state": strings.ToLower(v.state.String()), "code": int(v.state), "daemon": v.who,
			"problems": append([]string{}, v.problems...), "notes": append([]string{}, v.notes...), "numbers": numbers,
		})
		if err != nil {
			return err
		}
	} else {
		fmt.Fprintln(p.out, v)
	}
	if v.state == stateOK {
		return nil
	}
	return exit.With(int(v.state), errTold)
}

// errTold is the error of a run that has told all that there is to tell.
var errTold = errors.New("")

// String is the line: what is wrong, else how it is, and the numbers behind a bar, which the text
// before must not have.
func (v *condition) String() string {
	text := strings.Join(v.problems, ", ")
	if len(v.notes) > 0 {
		text = strings.Join(append(v.problems, strings.Join(v.notes, ", ")), ", ")
	}
	line := "JOBD " + v.state.String() + " - " + v.who + ": " + cmp.Or(text, "it is well")
	line = strings.ReplaceAll(strings.Join(strings.Fields(line), " "), "|", "/")
	if len(v.numbers) == 0 {
		return line
	}
	words := make([]string, len(v.numbers))
	for i, n := range v.numbers {
		words[i] = n.String()
	}
	return line + " | " + strings.Join(words, " ")
}

// unknownUsage gives the errors of a wrong command line or configuration the exit code that means
// unknown, where the command is health: 2, which they have else, would be critical.
func unknownUsage(root *cmd, args []string, err error) error {
	at := slices.IndexFunc(args, func(word string) bool { return slices.Contains(names(root), word) })
	if exit.Code(err) == exit.Usage && !errors.Is(err, errTold) && at >= 0 && args[at] == healthCommand {
		return exit.With(int(stateUnknown), err)
	}
	return err
}

// judge says how a worker is, or a master and its workers.
func (l limits) judge(v *condition, s *operator.Census, now time.Time) {
	if s.Master == nil {
		status := s.Workers[0].Value
		v.who = "worker " + cmp.Or(clean(status.Name), "at "+v.who)
		l.worker(v, status, "", stateCritical, now)
	} else {
		v.who = "master at " + v.who
		l.fleet(v, s, now)
	}
	l.targets(v, s, now)
	l.owed(v, s, now)
}

// fleet judges the workers of a master. One that takes no work is a warning while others do.
func (l limits) fleet(v *condition, s *operator.Census, now time.Time) {
	for _, t := range s.Master.Troubles {
		v.find(stateWarning, "the master refuses changes: %s", inALine(t.Why))
	}
	ready := 0
	for _, w := range s.Workers {
		if w.Err == nil && operator.Ready(w.Value) {
			ready++
		}
	}
	bad := stateCritical
	if ready > 0 {
		bad = stateWarning
	}
	for _, w := range s.Workers {
		name := "worker " + clean(w.From.Name)
		if w.Err != nil {
			v.find(bad, "%s: %s", name, clean(w.Err.Error()))
			continue
		}
		l.worker(v, w.Value, name+": ", bad, now)
	}
	if workers := screen.Count(len(s.Workers), "worker"); len(s.Workers) > 0 {
		v.notes = append(v.notes, workers)
	} else {
		v.find(stateCritical, "%s registered", workers)
	}
	v.numbers = append(v.numbers, figure{name: "workers", value: float64(len(s.Workers))}, figure{name: "ready", value: float64(ready)})
	for i, w := range s.Master.Down {
		if i == mostOfASort {
			v.find(stateWarning, "and %d more workers", len(s.Master.Down)-i)
			break
		}
		v.find(stateWarning, "worker %s down for %s", clean(w.Name), screen.Length(now.Sub(time.UnixMilli(w.Since))))
	}
	for i, u := range s.Master.Unserved {
		if i == mostOfASort {
			v.find(stateWarning, "and %d more targets", s.Master.UnservedCount-i)
			break
		}
		v.find(stateWarning, "target %s was poked and is served by nobody since %s", clean(u.Target), screen.Length(now.Sub(time.UnixMilli(u.Since))))
	}
	v.numbers = append(v.numbers, figure{name: "unserved", value: float64(s.Master.UnservedCount)})
}

// mostOfASort is how many of one sort of problem are named.
const mostOfASort = 3

// worker judges what a worker tells of itself.
func (l limits) worker(v *condition, status *workerStatus, before string, bad state, now time.Time) {
	for _, t := range operator.Troubles(status) {
		how, lasts := stateWarning, ""
		if t.Hinders {
			how = bad
		}
		if !t.Since.IsZero() {
			lasts = " for " + screen.Length(now.Sub(t.Since))
		}
		v.find(how, "%s%s%s: %s", before, clean(t.Effect), lasts, inALine(t.Cause))
	}
	if since := status.ConfigRefused; !since.IsZero() {
		v.find(stateWarning, "%sits configuration has had a mistake for %s, and the old one stays in force", before, screen.Length(now.Sub(since)))
	}
}

// inALine is a reason whose lines, of which one is all that many monitors show, are told apart by
// slashes.
func inALine(reason string) string { return clean(screen.InALine(reason)) }

// targets judges what waits and what has failed, for each target over all workers.
func (l limits) targets(v *condition, s *operator.Census, now time.Time) {
	var running, slots, waiting, ended, failed int
	var oldest float64
	why := map[string]string{} // of those that stand
	for _, t := range s.Tallies() {
		running, slots, ended, failed = running+t.Running, slots+t.Slots, ended+t.Ended, failed+t.Failed
		why[t.Target] = whyStands(t)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Waiting)) {
		w := s.Waiting[name]
		waiting += w.Count
		if w.Count == 0 || w.Oldest == 0 {
			continue
		}
		age := now.Sub(time.Unix(w.Oldest, 0))
		oldest = max(oldest, age.Seconds())
		if bad := l.oldest(age.Seconds()).judge(); bad > stateOK {
			v.find(bad, "the oldest row of target %s%s waits for %s", clean(name), why[name], screen.Length(age))
		}
	}
	for _, err := range s.Why {
		if v.state == stateOK { // else it is known why
			v.find(stateUnknown, "what waits is not known: %s", clean(err.Error()))
		}
	}
	wait := rowsWait(api.WaitingTarget{Count: waiting})
	if s.Lost {
		wait = "how many rows wait is not known"
	}
	v.notes = append(v.notes, fmt.Sprintf("%d of %s in use, %s", running, screen.Count(slots, "slot"), wait))
	share := 0.0
	if ended > 0 {
		share = 100 * float64(failed) / float64(ended)
	}
	first := l.oldest(oldest)
	first.lost = s.Lost
	v.numbers = append(v.numbers,
		figure{name: "waiting", value: float64(waiting), lost: s.Lost},
		first,
		figure{name: "running", value: float64(running), most: float64(slots)},
		figure{name: "failed", value: share, unit: "%", most: 100},
	)
}

// rowsWait says how many rows wait.
func rowsWait(w api.WaitingTarget) string {
	switch {
	case w.More:
		return countText(w) + " rows wait"
	case w.Count == 1:
		return "1 row waits"
	}
	return screen.Count(w.Count, "row") + " wait"
}

// owed judges what the table is owed: events that it does not show, and rows that can't be changed.
func (l limits) owed(v *condition, s *operator.Census, now time.Time) {
	var lag, behind float64
	count, longest := 0, time.Duration(0)
	for _, w := range s.Workers {
		if w.Err != nil {
			continue
		}
		if j := w.Value.Journal; j != nil {
			lag = max(lag, float64(owed(j)))
			if !j.UnshownSince.IsZero() {
				behind = max(behind, now.Sub(j.UnshownSince).Seconds())
			}
		}
		count += asides(*w.Value)
		for _, row := range w.Value.Quarantined {
			longest = max(longest, now.Sub(row.Since))
		}
	}
	late := figure{name: "lag", value: lag, warn: lagWarning, critical: lagCritical}
	if bad := late.judge(); bad > stateOK {
		v.find(bad, "the table does not show %.0f events yet", lag)
	}
	if l.maxLag > 0 && behind >= l.maxLag.Seconds() {
		v.find(stateCritical, "the table is behind for %s", screen.Length(time.Duration(behind*float64(time.Second))))
	}
	if count > 0 && longest >= asideWarning {
		v.find(stateWarning, "%s quarantined, the first for %s", screen.Count(count, "row"), screen.Length(longest))
	}
	v.numbers = append(v.numbers, late, figure{name: "aside", value: float64(count)})
}

// figure is one of the numbers that follow the line, in the form of Nagios' plugins.
type figure struct {
	name           string
	value          float64
	unit           string  // s, %, or nothing
	warn, critical float64 // from which on it is that; 0: never
	most           float64
	lost           bool // nobody knows it: U, as Nagios has it
}

// String is the number with its limits: name=value;warning;critical;least;most.
func (n figure) String() string {
	if n.lost {
		return n.name + "=U"
	}
	some := func(limit float64) string {
		if limit == 0 {
			return ""
		}
		return roundedNumber(limit)
	}
	text := fmt.Sprintf("%s=%s%s;%s;%s;0;%s", n.name, roundedNumber(n.value), n.unit, some(n.warn), some(n.critical), some(n.most))
	return strings.TrimRight(text, ";")
}

// judge tells how bad the number is.
func (n figure) judge() state {
	switch {
	case n.critical > 0 && n.value >= n.critical:
		return stateCritical
	case n.warn > 0 && n.value >= n.warn:
		return stateWarning
	}
	return stateOK
}

func roundedNumber(n float64) string { return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64) }

// limits are all that health goes by and that somebody may set.
type limits struct {
	maxAge time.Duration // critical where the oldest row has waited longer; 0: oldWarning and oldCritical count
	maxLag time.Duration // critical where the table has been behind for longer; 0: not judged
}

// From which on numbers are bad where nobody says otherwise.
const (
	oldWarning, oldCritical = 15 * time.Minute, time.Hour // the oldest row of a target
	lagWarning, lagCritical = 10_000, 1_000_000           // events that the table does not show
	asideWarning            = 15 * time.Minute            // a row that is quarantined
)

// oldest is a target's oldest row as a figure.
func (l limits) oldest(seconds float64) figure {
	n := figure{name: "oldest", value: seconds, unit: "s", warn: oldWarning.Seconds(), critical: oldCritical.Seconds()}
	if l.maxAge > 0 {
		n.warn, n.critical = 0, l.maxAge.Seconds()
	}
	return n
}

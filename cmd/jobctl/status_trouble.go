package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/net/api"
)

// idle is a target for which a worker claims nothing.
type idle struct{ worker, target, why string }

// idleTargets lists them, in the order of their names, but for those of which their executors say the
// same.
func idleTargets(s workerStatus, worker string) (list []idle) {
	for _, name := range slices.Sorted(maps.Keys(s.Targets)) {
		said := slices.ContainsFunc(s.Executors, func(e api.ExecutorStatus) bool {
			return e.Target == name && e.Unready != "" && strings.Contains(s.Targets[name].Why, e.Unready)
		})
		if why := s.Targets[name].Why; why != "" && !said {
			list = append(list, idle{worker, name, why})
		}
	}
	return list
}

// printIdentity prints by what the database and other workers know this one, as far as the worker
// tells.
func (p *program) printIdentity(s workerStatus) {
	if s.Server != "" {
		fmt.Fprintf(p.out, "database server: %s\n", clean(s.Server))
	}
	if s.Mark != "" {
		fmt.Fprintf(p.out, "mark in the claims of this worker: %s\n", clean(s.Mark))
	}
}

// printTrouble prints what keeps a worker from its work; nothing where nothing does, or where the
// worker is older and does not tell.
func (p *program) printTrouble(s workerStatus) {
	if h := s.Launcher; h != nil {
		fmt.Fprintf(p.out, "\nsince %s nothing is started: %s\n", p.sinceText(h.Since), clean(h.Broken))
	}
	p.paragraph(p.notReadyLines(s))
	if list := idleTargets(s, ""); len(list) > 0 {
		fmt.Fprintln(p.out)
		for _, t := range list {
			fmt.Fprintf(p.out, "nothing is claimed for target %s: %s\n", clean(t.target), clean(t.why))
		}
	}
	if n := asides(s); n > 0 {
		fmt.Fprintf(p.out, "\nrows set aside, to be tried again until they can be changed: %s\n", humanize.Comma(int64(n)))
		p.printSome(p.asideTable(s), len(s.Aside), n)
	}
}

// notReadyLines are why a worker may not take work, but for the launcher, of which more is told.
func (p *program) notReadyLines(s workerStatus) string {
	var lines strings.Builder
	for _, h := range s.NotReady {
		if h.What != "launcher" || s.Launcher == nil {
			fmt.Fprintf(&lines, "it takes no work%s: %s: %s\n", p.sinceSuffix(h.Since), clean(h.What), clean(h.Why))
		}
	}
	return lines.String()
}

// printOdds prints what is not settled, and settles by itself or needs somebody's look.
func (p *program) printOdds(s workerStatus) {
	for _, m := range s.Masters {
		if !m.Registered {
			fmt.Fprintf(p.out, "\nnot registered with the master %s%s: %s\n", clean(m.Address), p.sinceSuffix(m.Since), clean(m.Error))
		}
	}
	if since := s.ConfigRefused; !since.IsZero() {
		fmt.Fprintf(p.out, "\nits configuration has a mistake, and was not taken over at %s; a start would end: jobd --check, and the worker's log, tell which\n", p.clock(since))
	}
	if s.ClaimsInDoubt > 0 {
		fmt.Fprintf(p.out, "\nclaims of which it is not known yet whether they were committed: %s\n", humanize.Comma(int64(s.ClaimsInDoubt)))
	}
	if s.Strangers > 0 {
		fmt.Fprintf(p.out, "\nrows of its targets that are under way, and that no worker has claimed: %s\n", humanize.Comma(int64(s.Strangers)))
	}
}

// asides is how many rows are set aside, of which the worker may list the first only.
func asides(s workerStatus) int { return max(s.AsideCount, len(s.Aside)) }

// printSome prints a table that may have some of its rows only.
func (p *program) printSome(t table, shown, all int) {
	if shown > 0 {
		p.print(t)
	}
	if more := all - shown; more > 0 && shown > 0 {
		fmt.Fprintf(p.out, "and %s more\n", humanize.Comma(int64(more)))
	}
}

func (p *program) asideTable(s workerStatus) table {
	t := table{head: []string{"JOB", "TARGET", "SINCE", "REASON"}, elastic: "TARGET|REASON"}
	for _, row := range s.Aside {
		t.add(line(row.Job), line(row.Target), line(p.sinceText(row.Since)), line(row.Reason))
	}
	return t
}

func (p *program) sinceText(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return p.clock(since)
}

// printTroubles prints the same of all workers of a master.
func (p *program) printTroubles(s masterStatus) {
	targets := table{head: []string{"NAME", "TARGET", "NOTHING IS CLAIMED, BECAUSE"}, elastic: "NAME|TARGET|NOTHING IS CLAIMED, BECAUSE"}
	hitches := table{head: []string{"NAME", "SINCE", "NOTHING IS STARTED, BECAUSE"}, elastic: "NAME|NOTHING IS STARTED, BECAUSE"}
	unready := table{head: []string{"NAME", "SINCE", "IT TAKES NO WORK:", "BECAUSE"}, elastic: "NAME|BECAUSE"}
	odds := table{head: []string{"NAME", "CLAIMS IN DOUBT", "ROWS OF NO WORKER"}, elastic: "NAME"}
	rows := table{head: []string{"NAME", "ROWS SET ASIDE", "JOB", "TARGET", "SINCE", "REASON"}, elastic: "NAME|TARGET|REASON"}
	for _, worker := range s.Workers {
		if worker.Status == nil {
			continue
		}
		if h := worker.Status.Launcher; h != nil {
			hitches.add(line(worker.Name), line(p.sinceText(h.Since)), line(h.Broken))
		}
		for _, h := range worker.Status.NotReady {
			if h.What != "launcher" || worker.Status.Launcher == nil {
				unready.add(line(worker.Name), line(p.sinceText(h.Since)), line(h.What), line(h.Why))
			}
		}
		if s := worker.Status; s.ClaimsInDoubt+s.Strangers > 0 {
			odds.add(line(worker.Name), line(s.ClaimsInDoubt), line(s.Strangers))
		}
		for _, t := range idleTargets(*worker.Status, worker.Name) {
			targets.add(line(t.worker), line(t.target), line(t.why))
		}
		if n := asides(*worker.Status); n > 0 {
			row := []cell{line(worker.Name), line(n), nil, nil, nil, nil}
			for _, aside := range p.asideTable(*worker.Status).rows {
				for i, cell := range aside.cells {
					row[i+2] = append(row[i+2], cell...)
				}
			}
			rows.add(row...)
		}
	}
	for _, t := range []table{hitches, unready, targets, odds, rows} {
		if len(t.rows) > 0 {
			fmt.Fprintln(p.out)
			p.print(t)
		}
	}
}

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// printFleet prints the page of a master: its workers, all of them together, their targets, and
// what is wrong.
func (p *program) printFleet(s *census) {
	p.print(p.fleetTable(s))
	p.printStandings(s)
	tallies := s.tallies()
	fmt.Fprintf(p.out, "\n%s\nmaster's resident memory: %s\n\n", sumText(s, tallies), humanize.IBytes(s.master.Memory.RSS))
	p.print(p.tallyTable(s, tallies))
	p.printExecutors(s)
	p.printUncounted(s)
	p.printUnserved(s)
	p.printTroubles(*s.master)
}

// fleetTable has a line for each worker.
func (p *program) fleetTable(s *census) table {
	t := table{
		head: []string{"NAME", "ADDRESS", "VERSION", "UP", "DATABASE", "LAG", "SLOTS", "TARGETS"},
		none: "no workers", elastic: "ADDRESS",
	}
	for i, w := range s.workers {
		version, up, database, lag, slots := untold, untold, untold, untold, untold
		targets := len(s.master.Workers[i].Targets) + s.master.Workers[i].TargetsCut
		if status := w.answer; w.err == nil {
			targets, version = len(status.Targets), cmp.Or(status.Version, untold)
			if status.Started > 0 {
				up = p.ago(time.UnixMilli(status.Started))
			}
			if status.Journal != nil {
				lag = fmt.Sprint(owed(status.Journal))
			}
			used, all := slotsOf(status)
			slots = fmt.Sprintf("%s/%d", untold, all)
			if d := status.Database; d != nil {
				slots, database = fmt.Sprintf("%d/%d", used, all), "reachable"
				if !d.Reachable {
					database = "away " + p.ago(d.Since)
				}
			}
		}
		t.add(line(w.from.name), line(w.from.address), line(version), line(up), line(database), line(lag), line(slots), line(targets))
	}
	return t
}

// slotsOf are the slots of a worker.
func slotsOf(s *workerStatus) (used, all int) {
	for _, t := range s.Targets {
		used += t.Running
		all += t.Concurrency
	}
	return used, all
}

// printStandings names the workers that don't answer, or can't tell all, and says what others can't
// reach or have no room for.
func (p *program) printStandings(s *census) {
	var lines strings.Builder
	for _, w := range s.workers {
		line := func(text string) { fmt.Fprintf(&lines, "worker %s%s\n", clean(w.from.name), text) }
		switch {
		case w.err != nil:
			line(" does not answer: " + clean(w.err.Error()))
			continue
		case !tellsMore(w.answer):
			line(" can't tell more, because it is an older jobd, or the original")
			continue
		case !w.answer.Database.Reachable:
			line(": the database is " + p.standingText(*w.answer.Database, "", "away"))
		}
		if j := w.answer.Journal; j != nil && j.Full != "" {
			line(": the journal's disk is full since " + p.sinceText(j.FullSince) + ": " + clean(j.Full))
		}
		if r := w.answer.Runner; r != nil && !r.Reachable {
			line(": the runner is " + p.standingText(r.Standing, "", "not connected"))
		}
	}
	p.paragraph(lines.String())
}

// paragraph prints lines, if there are any, behind an empty one.
func (p *program) paragraph(lines string) {
	if lines != "" {
		fmt.Fprint(p.out, "\n"+lines)
	}
}

// sumText adds up all workers.
func sumText(s *census, tallies []tally) string {
	var silent, older, used, all, prefetched int
	var lag int64
	for _, w := range s.workers {
		switch {
		case w.err != nil:
			silent++
			continue
		case !tellsMore(w.answer):
			older++
		}
		if w.answer.Journal != nil {
			lag += owed(w.answer.Journal)
		}
	}
	for _, t := range tallies {
		used, all, prefetched = used+t.Running, all+t.Slots, prefetched+t.Prefetched
	}
	text := fmt.Sprintf("%s, %s; %d of %s in use, %d prefetched",
		countOf(len(s.workers), "worker"), countOf(len(tallies), "target"), used, countOf(all, "slot"), prefetched)
	if lag > 0 {
		text += fmt.Sprintf("\nthe table does not show %s yet", countOf(int(lag), "event"))
	}
	if silent > 0 {
		text += fmt.Sprintf("\nthat is without %s that did not answer", countOf(silent, "worker"))
	}
	if older > 0 {
		text += fmt.Sprintf("\nthat is without what runs on %s of an older version", countOf(older, "worker"))
	}
	return text
}

// countOf is a number of things.
func countOf(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return humanize.Comma(int64(n)) + " " + thing + "s"
}

// tallyTable has a line for each target, added up over all workers.
func (p *program) tallyTable(s *census, tallies []tally) table {
	t := table{head: []string{"TARGET", "WORKERS", "SLOTS", "PREFETCHED", "WAITING", "OLDEST", "PAUSED"}, none: "no targets", elastic: "TARGET"}
	delays := s.delays()
	if delays {
		t.head = slices.Insert(t.head, 6, "NEXT DUE")
	}
	for _, one := range tallies {
		running, prefetched, paused := fmt.Sprint(one.Running), fmt.Sprint(one.Prefetched), "no"
		if one.Untold > 0 {
			running, prefetched = untold, untold
		}
		if one.Paused > 0 {
			paused = fmt.Sprintf("%d of %d", one.Paused, one.Workers)
		}
		waiting, oldest := p.waitingCells(s, one.Target)
		cells := []cell{
			line(one.Target), line(one.Workers), line(fmt.Sprintf("%s/%d", running, one.Slots)), line(prefetched), waiting, oldest, line(paused),
		}
		if delays {
			cells = slices.Insert(cells, 6, line(p.dueIn(s.nextDue(one.Target)*1000)))
		}
		t.add(cells...)
	}
	return t
}

// printUnserved names the targets that were poked and that nobody serves.
func (p *program) printUnserved(s *census) {
	var lines strings.Builder
	for _, u := range s.master.Unserved {
		fmt.Fprintf(&lines, "target %s was poked and is served by nobody, since %s", clean(u.Target), p.clock(time.UnixMilli(u.Since)))
		if w, known := s.waiting[u.Target]; known {
			fmt.Fprintf(&lines, "; %s", rowsWait(w))
		}
		lines.WriteByte('\n')
	}
	if more := s.master.UnservedCount - len(s.master.Unserved); more > 0 {
		fmt.Fprintf(&lines, "and %s more\n", humanize.Comma(int64(more)))
	}
	p.paragraph(lines.String())
}

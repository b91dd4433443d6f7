package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/screen"
	"jobd/net/api"
)

// judge says how a worker is, or a master and its workers.
func (l limits) judge(v *condition, s *census, now time.Time) {
	if s.master == nil {
		status := s.workers[0].answer
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
func (l limits) fleet(v *condition, s *census, now time.Time) {
	ready := 0
	for _, w := range s.workers {
		if w.err == nil && len(hindrances(w.answer)) == 0 {
			ready++
		}
	}
	bad := stateCritical
	if ready > 0 {
		bad = stateWarning
	}
	for _, w := range s.workers {
		name := "worker " + clean(w.from.name)
		if w.err != nil {
			v.find(bad, "%s: %s", name, clean(w.err.Error()))
			continue
		}
		l.worker(v, w.answer, name+": ", bad, now)
	}
	switch n := float64(len(s.workers)); {
	case n < l.workers.critical:
		v.find(stateCritical, "%s registered", countOf(len(s.workers), "worker"))
	case n < l.workers.warn:
		v.find(stateWarning, "%s registered", countOf(len(s.workers), "worker"))
	default:
		v.notes = append(v.notes, countOf(len(s.workers), "worker"))
	}
	v.numbers = append(v.numbers, figure{name: "workers", value: float64(len(s.workers))}, figure{name: "ready", value: float64(ready)})
	for i, u := range s.master.Unserved {
		if i == mostUnservedNamed {
			v.find(stateWarning, "and %d more targets", s.master.UnservedCount-i)
			break
		}
		v.find(stateWarning, "target %s was poked and is served by nobody since %s", clean(u.Target), screen.Length(now.Sub(time.UnixMilli(u.Since))))
	}
	v.numbers = append(v.numbers, figure{name: "unserved", value: float64(s.master.UnservedCount)})
}

// mostUnservedNamed is how many of one sort of problem are named.
const mostUnservedNamed = 3

// worker judges what a worker tells of itself.
func (l limits) worker(v *condition, status *workerStatus, before string, bad state, now time.Time) {
	for _, h := range hindrances(status) {
		since := ""
		if !h.Since.IsZero() {
			since = " for " + screen.Length(now.Sub(h.Since))
		}
		v.find(bad, "%s%s%s: %s", before, clean(h.What), since, clean(h.Why))
	}
	if since := status.ConfigRefused; !since.IsZero() {
		v.find(stateWarning, "%sits configuration has had a mistake for %s, and is not taken over", before, screen.Length(now.Sub(since)))
	}
	for i := range status.Executors {
		switch e := &status.Executors[i]; {
		case e.Unready != "":
			v.find(stateWarning, "%sno job of target %s can be started for %s: %s", before, clean(e.Target), screen.Length(now.Sub(time.UnixMilli(e.Since))), inALine(e.Unready))
		case e.Failing != "":
			v.find(stateWarning, "%sno new process for target %s gets ready for %s: %s", before, clean(e.Target), screen.Length(now.Sub(time.UnixMilli(e.Since))), inALine(e.Failing))
		}
	}
	for _, m := range status.Masters {
		if !m.Registered {
			v.find(stateWarning, "%snot registered with the master %s: %s", before, clean(m.Address), clean(m.Error))
		}
	}
}

// inALine is a reason whose lines, of which one is all that many monitors show, are told apart by
// slashes.
func inALine(reason string) string { return clean(screen.InALine(reason)) }

// hindrances are why a worker may not take work, as it says; of an older one, as far as it tells of
// its parts.
func hindrances(s *workerStatus) []api.NotReady {
	if len(s.NotReady) > 0 {
		return s.NotReady
	}
	var why []api.NotReady
	add := func(is bool, what, reason string, since time.Time) {
		if is {
			why = append(why, api.NotReady{What: what, Why: reason, Since: since})
		}
	}
	if d := s.Database; d != nil {
		add(!d.Reachable, "database", d.Error, d.Since)
	}
	if r := s.Runner; r != nil {
		add(!r.Reachable, "runner", r.Error, r.Since)
	}
	if j := s.Journal; j != nil {
		add(j.Full != "", "journal", j.Full, j.FullSince)
	}
	if h := s.Launcher; h != nil {
		add(true, "launcher", h.Broken, h.Since)
	}
	return why
}

// targets judges what waits and what has failed, for each target over all workers.
func (l limits) targets(v *condition, s *census, now time.Time) {
	var running, slots, waiting, ended, failed int
	var oldest float64
	why := map[string]string{} // of those that stand
	for _, t := range s.tallies() {
		running, slots, ended, failed = running+t.Running, slots+t.Slots, ended+t.Ended, failed+t.Failed
		why[t.Target] = t.why()
		if t.Ended > 0 {
			share := 100 * float64(t.Failed) / float64(t.Ended)
			if bad := l.failed.judge(share); bad > stateOK {
				v.find(bad, "%d of %d jobs of target %s have failed within a minute", t.Failed, t.Ended, clean(t.Target))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.waiting)) {
		w := s.waiting[name]
		waiting += w.Count
		if bad := l.waiting.judge(float64(w.Count)); bad > stateOK {
			v.find(bad, "%s for target %s%s", rowsWait(w), clean(name), strings.TrimSuffix(why[name], ","))
		}
		if w.Count == 0 || w.Oldest == 0 {
			continue
		}
		age := now.Sub(time.Unix(w.Oldest, 0))
		oldest = max(oldest, age.Seconds())
		if bad := l.oldest.judge(age.Seconds()); bad > stateOK {
			v.find(bad, "the oldest row of target %s%s waits for %s", clean(name), why[name], screen.Length(age))
		}
	}
	for _, err := range s.why {
		if v.state == stateOK { // else it is known why
			v.find(stateUnknown, "what waits is not known: %s", clean(err.Error()))
		}
	}
	wait := rowsWait(api.WaitingTarget{Count: waiting})
	if s.lost {
		wait = "how many rows wait is not known"
	}
	v.notes = append(v.notes, fmt.Sprintf("%d of %s in use, %s", running, countOf(slots, "slot"), wait))
	share := 0.0
	if ended > 0 {
		share = 100 * float64(failed) / float64(ended)
	}
	v.numbers = append(v.numbers,
		figure{name: "waiting", value: float64(waiting), limit: l.waiting, lost: s.lost},
		figure{name: "oldest", value: oldest, unit: "s", limit: l.oldest, lost: s.lost},
		figure{name: "running", value: float64(running), most: float64(slots)},
		figure{name: "failed", value: share, unit: "%", limit: l.failed, most: 100},
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
	return countOf(w.Count, "row") + " wait"
}

// owed judges what the table is owed: events that it does not show, and rows that can't be changed.
func (l limits) owed(v *condition, s *census, now time.Time) {
	var lag float64
	count, longest := 0, time.Duration(0)
	for _, w := range s.workers {
		if w.err != nil {
			continue
		}
		if j := w.answer.Journal; j != nil {
			lag = max(lag, float64(owed(j)))
		}
		count += asides(*w.answer)
		for _, row := range w.answer.Aside {
			longest = max(longest, now.Sub(row.Since))
		}
	}
	if bad := l.lag.judge(lag); bad > stateOK {
		v.find(bad, "the table does not show %.0f events yet", lag)
	}
	if bad := l.aside.judge(longest.Seconds()); bad > stateOK && count > 0 {
		v.find(bad, "%s set aside, the first for %s", countOf(count, "row"), screen.Length(longest))
	}
	v.numbers = append(v.numbers, figure{name: "lag", value: lag, limit: l.lag}, figure{name: "aside", value: float64(count)})
}

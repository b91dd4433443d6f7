package live

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"jobd/cmd/internal/screen"
	"jobd/net/api"
)

// tone is what a line means. Colours only repeat what the words say.
type tone int

const (
	plain tone = iota
	bold
	faint
	odd // worth a look
	bad
	chosen // the row that keys are about
)

// line is a line of the view.
type line struct {
	text string
	tone tone
}

// troubles are what keeps daemons from their work, the worst first, and what can't be told.
func (m *model) troubles() (lines []line) {
	add := func(t tone, format string, args ...any) { lines = append(lines, line{fmt.Sprintf(format, args...), t}) }
	if since, silent := m.fleet.silence(m.now); silent {
		switch {
		case m.fleet.err == nil && m.fleet.known:
			add(bad, "no answer since %s, waiting", m.clock(since))
		case m.fleet.err == nil:
			add(bad, "no answer yet, asked at %s", m.clock(since))
		default:
			add(bad, "no answer since %s: %v", m.clock(since), m.fleet.err)
		}
	}
	for _, text := range m.fleet.answer.Troubles {
		add(bad, "%s", text)
	}
	for _, w := range m.fleet.answer.Workers {
		name := ""
		if m.config.Master {
			name = w.Name + ": "
		}
		if w.Status == nil {
			add(bad, "%s%s", name, w.Error)
			continue
		}
		lines = append(lines, m.troublesOf(name, w.Status)...)
	}
	lines = append(lines, m.untold()...)
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(severity[b.tone], severity[a.tone]) })
	return lines
}

// severity orders what is wrong.
var severity = map[tone]int{bad: 2, odd: 1}

// untold is what other requests could not find out.
func (m *model) untold() (lines []line) {
	if since, silent := m.running.silence(m.now); silent && m.fleet.err == nil {
		if m.running.err != nil {
			lines = append(lines, line{fmt.Sprintf("running jobs as of %s: %v", m.clock(since), m.running.err), odd})
		} else if _, all := m.fleet.silence(m.now); !all {
			lines = append(lines, line{fmt.Sprintf("running jobs as of %s: no answer since", m.clock(since)), odd})
		}
	}
	for _, text := range m.running.answer.Silent {
		lines = append(lines, line{"running jobs: " + text, odd})
	}
	if m.waiting.err != nil && m.fleet.err == nil {
		lines = append(lines, line{fmt.Sprintf("what waits can't be told: %v", m.waiting.err), odd})
	}
	for _, text := range m.waiting.answer.Silent {
		lines = append(lines, line{"what waits: " + text, odd})
	}
	return lines
}

// troublesOf are what a worker says of itself.
func (m *model) troublesOf(name string, s *api.WorkerStatus) (lines []line) {
	add := func(t tone, format string, args ...any) {
		lines = append(lines, line{name + fmt.Sprintf(format, args...), t})
	}
	if d := s.Database; d != nil && !d.Reachable {
		add(bad, "the database is away%s: %s", m.sinceText(d.Since), d.Error)
	}
	if j := s.Journal; j != nil && (j.Full != "" || !j.FullSince.IsZero()) {
		add(bad, "the journal's disk is too full%s: %s", m.sinceText(j.FullSince), j.Full)
	}
	if r := s.Runner; r != nil && !r.Reachable {
		add(bad, "the runner does not answer%s: %s", m.sinceText(r.Since), r.Error)
	}
	if h := s.Launcher; h != nil {
		add(bad, "nothing is started%s: %s", m.sinceText(h.Since), h.Broken)
	}
	for i := range s.Executors {
		switch e := &s.Executors[i]; {
		case e.Unready != "":
			add(bad, "no job of target %s can be started%s: %s", e.Target, m.sinceText(time.UnixMilli(e.Since)), screen.InALine(e.Unready))
		case e.Failing != "":
			add(odd, "no new process for target %s gets ready%s: %s", e.Target, m.sinceText(time.UnixMilli(e.Since)), screen.InALine(e.Failing))
		}
	}
	for _, master := range s.Masters {
		if !master.Registered {
			add(odd, "not registered with the master %s: %s", master.Address, master.Error)
		}
	}
	if n := max(s.QuarantinedCount, len(s.Quarantined)); n > 0 {
		add(odd, "%s quarantined, and tried again: see jobctl status", plural(n, "row is", "rows are"))
	}
	if s.ClaimsInDoubt > 0 {
		add(odd, "%s in doubt", plural(s.ClaimsInDoubt, "claim is", "claims are"))
	}
	if s.UnownedRows > 0 {
		add(odd, "%s under way that no worker has claimed", plural(s.UnownedRows, "row is", "rows are"))
	}
	if !tells(s) {
		add(faint, "it can't tell slots in use and rates, because it is an older jobd, or the original")
	}
	return lines
}

// sinceText says since when something is so, where that is known.
func (m *model) sinceText(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return " since " + m.clock(since)
}

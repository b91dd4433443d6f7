package live

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"jobd/cmd/internal/operator"
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
	for _, text := range m.beyond() {
		add(bad, "%s", text)
	}
	for _, w := range m.workers() {
		name := ""
		if m.config.Master {
			name = nameOf(w) + ": "
		}
		if w.Err != nil {
			add(bad, "%s%v", name, w.Err)
			continue
		}
		lines = append(lines, m.troublesOf(name, w.Value)...)
	}
	lines = append(lines, m.untold()...)
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(severity[b.tone], severity[a.tone]) })
	return lines
}

// severity orders what is wrong.
var severity = map[tone]int{bad: 2, odd: 1}

// beyond is what a master says that is of none of its workers.
func (m *model) beyond() (texts []string) {
	if m.fleet.answer == nil || m.fleet.answer.Master == nil {
		return nil
	}
	s := m.fleet.answer.Master
	if len(s.Workers) == 0 {
		texts = append(texts, "no worker is registered with the master")
	}
	for _, w := range s.Down {
		texts = append(texts, fmt.Sprintf("worker %s down%s", w.Name, m.sinceText(time.UnixMilli(w.Since))))
	}
	if len(s.Unserved) > 0 {
		text := fmt.Sprintf("target '%s' was poked at %s, and nobody serves it", s.Unserved[0].Target, m.clock(time.UnixMilli(s.Unserved[0].Since)))
		if more := max(s.UnservedCount, len(s.Unserved)) - 1; more > 0 {
			text += fmt.Sprintf("; nor %d more", more)
		}
		texts = append(texts, text)
	}
	return texts
}

// untold is what other requests could not find out.
func (m *model) untold() (lines []line) {
	if since, silent := m.running.silence(m.now); silent && m.fleet.err == nil {
		if m.running.err != nil {
			lines = append(lines, line{fmt.Sprintf("running jobs as of %s: %v", m.clock(since), m.running.err), odd})
		} else if _, all := m.fleet.silence(m.now); !all {
			lines = append(lines, line{fmt.Sprintf("running jobs as of %s: no answer since", m.clock(since)), odd})
		}
	}
	for _, w := range m.workers() {
		if text := m.running.answer.Errors[w.From.Name]; text != "" && w.Err == nil { // else that is said
			lines = append(lines, line{fmt.Sprintf("running jobs: %v", w.From.Named(errors.New(text))), odd})
		}
	}
	if m.waiting.err != nil && m.fleet.err == nil {
		lines = append(lines, line{fmt.Sprintf("what waits can't be told: %v", m.waiting.err), odd})
	}
	for _, err := range m.waiting.answer.Silent {
		lines = append(lines, line{"what waits: " + err.Error(), odd})
	}
	return lines
}

// troublesOf are what a worker says of itself.
func (m *model) troublesOf(name string, s *api.WorkerStatus) (lines []line) {
	add := func(t tone, format string, args ...any) {
		lines = append(lines, line{name + fmt.Sprintf(format, args...), t})
	}
	for _, t := range operator.Troubles(s) {
		tone := odd
		if t.Hinders {
			tone = bad
		}
		add(tone, "%s%s: %s", t.Effect, m.sinceText(t.Since), screen.InALine(t.Cause))
	}
	if n := operator.Quarantined(s); n > 0 {
		add(odd, "quarantined, and tried again (jobctl status): %s", screen.Count(n, "row"))
	}
	if s.ClaimsInDoubt > 0 {
		add(odd, "in doubt: %s", screen.Count(s.ClaimsInDoubt, "claim"))
	}
	if s.UnownedRows > 0 {
		add(odd, "under way, and claimed by no worker: %s", screen.Count(s.UnownedRows, "row"))
	}
	if !operator.TellsMore(s) {
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

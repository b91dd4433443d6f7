package live

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
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
	for _, problem := range m.problems {
		add(map[bool]tone{true: bad, false: odd}[problem.State == operator.Critical || problem.Code == "silent" || problem.Code == "down"], "%s", problem.Text)
	}
	if since, silent := m.running.silence(m.now); silent && m.fleet.err == nil && m.running.err != nil {
		add(odd, "running jobs as of %s: %v", m.clock(since), m.running.err)
	}
	for _, w := range m.workers() {
		if text := m.running.answer.Errors[w.From.Name]; text != "" && w.Err == nil { // else that is said
			add(odd, "running jobs: %v", w.From.Named(errors.New(text)))
		}
	}
	if m.waiting.err != nil && m.fleet.err == nil {
		add(odd, "the waiting rows are not known: %v", m.waiting.err)
	}
	for _, err := range m.waiting.answer.Silent {
		add(odd, "what waits: %v", err)
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(severity[b.tone], severity[a.tone]) })
	return lines
}

// severity orders what is wrong.
var severity = map[tone]int{bad: 2, odd: 1}

// state is in words how a worker of a master stands.
func (m *model) state(name string) string {
	for _, problem := range m.problems {
		if problem.Worker == name {
			return strings.TrimPrefix(problem.Text, "worker "+screen.Clean(name)+": ")
		}
	}
	return "ok"
}

// sinceText says since when something is so, where that is known.
func (m *model) sinceText(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return " since " + m.clock(since)
}

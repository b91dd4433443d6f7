package live

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"jobd/net/api"
)

// keyLine is the last line: what can be done here. Where it is too long the last of the keys that
// the help tells of are left out.
func (m *model) keyLine() line {
	keys := []string{"p pause", "c continue", "l look", "s sort", "tab next table", "? help", "q quit"}
	if m.chosen == jobsPane {
		keys = []string{"x cancel", "p pause", "c continue", "s sort", "tab next table", "? help", "q quit"}
	}
	for len(keys) > 2 && wide(strings.Join(keys, "  ")) > m.width {
		keys = slices.Delete(keys, len(keys)-3, len(keys)-2)
	}
	return line{strings.Join(keys, "  "), faint}
}

// helpLines are the page of all keys.
func (m *model) helpLines() []line {
	texts := []string{
		"tab, shift+tab   the next table, the one before",
		"↑ ↓ or k j, pgup pgdn home end   choose a row",
		"s        order of running jobs: by age, processor time, memory",
		"p, c     pause, continue the chosen target, of all workers; asks first",
		"l        look for jobs of the chosen target now (poke)",
		"x        cancel the chosen job: TERM, then KILL; asks first",
		"?        this page    q, ctrl+c  quit",
		"",
		"RUNNING: slots in use, of all. WAITING: rows of the table, counted up to 10000",
		"every 5 s. OLDEST: how long the first waits.",
		"EMPTY IN: at the pace of the last minute. ?: not known.",
	}
	lines := []line{{m.both("jobctl top: keys", m.clock(m.now)), bold}}
	for _, text := range texts {
		for piece := range strings.SplitSeq(lipgloss.Wrap(text, m.width, ""), "\n") {
			lines = append(lines, line{piece, plain})
		}
	}
	return m.withFoot(lines)
}

// press does what a key is for.
func (m *model) press(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.question != nil:
		return m.decide(name)
	case m.help:
		m.help = false
		return nil
	}
	switch name {
	case "q":
		return tea.Quit
	case "?":
		m.help = true
	case "tab":
		m.next(1)
	case "shift+tab":
		m.next(-1)
	case "s":
		m.sort = map[string]string{
			api.SortAge: api.SortCPU, api.SortCPU: api.SortMemory, api.SortMemory: api.SortAge,
		}[m.sort]
		m.at[jobsPane] = cursor{}
		m.running.answer.Sort(m.sort) // until the first ones of that order are told
	case "p":
		m.askTarget(Pause)
	case "c":
		m.askTarget(Continue)
	case "l":
		if target, ok := m.needTarget(); ok {
			return m.do(Action{Kind: Poke, Target: target})
		}
	case "x":
		m.askCancel()
	default:
		m.move(name)
	}
	return nil
}

// next chooses another table.
func (m *model) next(step int) {
	all := m.panes()
	for i, p := range all {
		if p == m.chosen {
			m.chosen = all[(i+step+len(all))%len(all)]
			return
		}
	}
}

// move chooses another row.
func (m *model) move(name string) {
	c := &m.at[m.chosen]
	step, known := steps(m.rooms().rows[m.chosen], m.count(m.chosen))[name]
	if !known {
		return
	}
	c.row = min(max(0, c.row+step), max(0, m.count(m.chosen)-1))
	c.target, c.gone = "", false
	if job, listed := m.chosenJob(); m.chosen == jobsPane {
		c.kept, c.job, c.in = listed, int64(job.Job), job.Worker
	}
	if target, ok := m.chosenTarget(); ok && m.chosen == targetsPane {
		c.target = target
	}
}

// steps is how far the keys go.
func steps(page, all int) map[string]int {
	return map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -max(1, page), "pgdown": max(1, page), "home": -all, "end": all}
}

// needTarget is the chosen target; without one it is said how to choose one.
func (m *model) needTarget() (string, bool) {
	target, ok := m.chosenTarget()
	if !ok {
		m.say(true, "choose a target first: tab goes to the next table, ↑ and ↓ to a row")
	}
	return target, ok && m.isThere()
}

// needJob is the chosen job; without one it is said how to choose one.
func (m *model) needJob() (Job, bool) {
	if job, ok := m.chosenJob(); ok && m.chosen == jobsPane {
		return job, m.isThere()
	}
	m.say(true, "choose a running job first: tab goes to the next table, ↑ and ↓ to a row")
	return Job{}, false
}

func (m *model) say(bad bool, text string) {
	m.said = note{text, bad, m.now.Add(noteFor)}
}

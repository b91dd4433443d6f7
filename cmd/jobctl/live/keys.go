package live

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

// question is what a person has to say yes to before it is done. It names what it is about, so that
// rows that move meanwhile change nothing.
type question struct {
	text   string
	action Action
}

// done is the message that an action was answered.
type done struct {
	action Action
	answer string
	err    error
}

// words are what an action is called: when it is asked for, under way, and done.
func (a Action) words() (wanted, underWay string) {
	job := fmt.Sprintf("job %s of %s", id(a.Job.Job), a.Job.Target)
	if a.Job.Worker != "" {
		job += " on " + a.Job.Worker
	}
	switch a.Kind {
	case Pause:
		return "pause " + a.Target, "pausing " + a.Target
	case Continue:
		return "continue " + a.Target, "continuing " + a.Target
	case Poke:
		return "poke " + a.Target, "poking " + a.Target
	}
	return "cancel " + job, "cancelling " + job
}

// askTarget asks whether something is to be done with the chosen target.
func (m *model) askTarget(kind ActionKind) {
	if target, ok := m.needTarget(); ok && m.free() {
		action := Action{Kind: kind, Target: target}
		wanted, _ := action.words()
		if m.config.Master {
			wanted += " on all workers"
		}
		m.question = &question{wanted + "?", action}
	}
}

// askCancel does the same with the chosen job, which may be cancelled.
func (m *model) askCancel() {
	job, ok := m.needJob()
	if !ok || !m.free() {
		return
	}
	action := Action{Kind: Cancel, Target: job.Target, Job: job}
	wanted, _ := action.words()
	if job.PID > 0 {
		wanted += fmt.Sprintf(", process %d", job.PID)
	}
	m.question = &question{wanted + "?", action}
}

// free tells whether an action may begin: one is under way at a time.
func (m *model) free() bool {
	if m.doing != "" {
		m.say(true, "wait for the answer: "+m.doing)
	}
	return m.doing == ""
}

// decide takes the answer to the question. Any other key asks on.
func (m *model) decide(key string) tea.Cmd {
	switch key {
	case "y", "Y":
		action := m.question.action
		m.question = nil
		return m.do(action)
	case "n", "N", "esc", "q":
		m.question = nil
		m.say(false, "nothing was done")
	}
	return nil
}

// do carries an action out, beside everything else.
func (m *model) do(action Action) tea.Cmd {
	if !m.free() {
		return nil
	}
	_, m.doing = action.words()
	return func() tea.Msg {
		answer, err := m.config.Source.Do(m.ctx, action)
		return done{action, answer, err}
	}
}

// ended says what came of an action, and has everything asked for anew, so that it is seen.
func (m *model) ended(d done) {
	wanted, _ := d.action.words()
	m.doing = ""
	m.fleet.begun, m.running.begun = time.Time{}, time.Time{}
	if d.err != nil {
		m.say(true, fmt.Sprintf("%s: %v", wanted, d.err))
	} else {
		m.say(false, fmt.Sprintf("%s: %s", wanted, d.answer))
	}
}

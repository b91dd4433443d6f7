package live

import (
	"slices"

	"jobd/cmd/internal/operator"
)

// The smallest window that is drawn in.
const (
	leastWidth  = 40
	leastHeight = 10
)

// mostTroubles is how many lines of trouble are shown above the tables.
const mostTroubles = 4

// layout is how the window's lines are shared out.
type layout struct {
	troubles int
	rows     [panes]int // 0: the pane is not shown
}

// frame is the lines of a pane beside its rows: its title, and the heads of its columns.
const frame = 2

// rooms shares out the lines: two at the top, two at the bottom, the troubles, and the panes. Each
// pane gets as many rows as it has, or its part. In a low window only the chosen one is shown.
func (m *model) rooms() (l layout) {
	part := m.height / 6
	if m.config.Master {
		part = m.height / 12 // the table of workers says them as well
	}
	l.troubles = min(mostTroubles, len(m.troubles()), max(1, part))
	left := m.height - 4 - l.troubles
	show := m.panes()
	if left < len(show)*(frame+2) {
		l.rows[m.chosen] = max(1, left-frame)
		return l
	}
	left -= len(show) * frame
	for i, p := range show {
		if p == jobsPane {
			l.rows[p] = left
			break
		}
		part := left / (len(show) - i)
		if p == workersPane {
			part = min(part, max(3, left/4))
		}
		l.rows[p] = min(part, max(1, m.count(p)))
		left -= l.rows[p]
	}
	return l
}

// panes are those that there are.
func (m *model) panes() []pane {
	if m.config.Master {
		return []pane{workersPane, targetsPane, jobsPane}
	}
	return []pane{targetsPane, jobsPane}
}

// shownTargets are the names of the targets in the window.
func (m *model) shownTargets() (names []string) {
	for _, t := range shown(m.targets(), m.at[targetsPane].top, m.rooms().rows[targetsPane]) {
		names = append(names, t.Target)
	}
	return names
}

// settle keeps the chosen rows inside of what there is, and inside of the window. A job or a target
// that was chosen stays it, wherever it has got to.
func (m *model) settle() {
	l := m.rooms()
	m.hold()
	for p := range m.at {
		c, all := &m.at[p], m.count(pane(p))
		c.row = min(max(0, c.row), max(0, all-1))
		rows := max(1, l.rows[p])
		c.top = min(c.top, c.row, max(0, all-rows))
		c.top = max(0, c.top, c.row-rows+1)
	}
}

// hold lets the cursors follow the job and the target that were chosen: lists move beneath them.
func (m *model) hold() {
	if c := &m.at[jobsPane]; c.kept && m.running.known {
		c.follow(slices.IndexFunc(m.running.answer.Jobs, func(job Job) bool { return int64(job.Job) == c.job && job.Worker == c.in }))
		c.kept = !c.gone
	}
	if c := &m.at[targetsPane]; c.target != "" {
		c.follow(slices.IndexFunc(m.targets(), func(t operator.Tally) bool { return t.Target == c.target }))
	}
}

// follow goes where what was chosen has got to; below 0: it is not there any more.
func (c *cursor) follow(row int) {
	if c.gone = row < 0; !c.gone {
		c.row = row
	}
}

// isThere tells whether what was chosen is still there. Where it is not, a key does nothing to what came
// in its place: it is said, and the next key counts.
func (m *model) isThere() bool {
	c := &m.at[m.chosen]
	if c.gone {
		c.gone, c.target = false, ""
		m.say(true, "what was chosen is gone, and nothing was done: choose again")
		return false
	}
	return true
}

// chosenJob is the job that keys are about.
func (m *model) chosenJob() (Job, bool) {
	jobs, row := m.running.answer.Jobs, m.at[jobsPane].row
	if row < len(jobs) {
		return jobs[row], true
	}
	return Job{}, false
}

// chosenTarget is the target that keys are about: the chosen one, or that of the chosen job.
func (m *model) chosenTarget() (string, bool) {
	switch m.chosen {
	case targetsPane:
		if all := m.targets(); m.at[targetsPane].row < len(all) {
			return all[m.at[targetsPane].row].Target, true
		}
	case jobsPane:
		if job, ok := m.chosenJob(); ok {
			return job.Target, true
		}
	}
	return "", false
}

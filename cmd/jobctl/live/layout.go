package live

import (
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
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

// column is a column of a pane.
type column struct {
	head    string
	right   bool // numbers
	elastic bool // is cut where the window is too narrow
	least   int  // what an elastic one keeps
}

// gap is between two columns.
const gap = 2

// grid is rows in columns as wide as they need, or as there is room.
type grid struct {
	columns []column
	rows    [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// lines gives the head and the rows, in so many columns of the terminal.
func (g *grid) lines(width int) (head string, rows []string) {
	widths := g.widths(width)
	heads := make([]string, len(g.columns))
	for i, c := range g.columns {
		heads[i] = c.head
	}
	for _, cells := range g.rows {
		rows = append(rows, g.line(cells, widths))
	}
	return g.line(heads, widths), rows
}

func (g *grid) line(cells []string, widths []int) (text string) {
	for i, cell := range cells {
		if i > 0 {
			text += "  "
		}
		if g.columns[i].right {
			text += fitRight(cell, widths[i])
		} else {
			text += fit(cell, widths[i])
		}
	}
	return text
}

// widths gives each column what its cells need. What is too much the elastic ones give up, always
// the widest of them first.
func (g *grid) widths(width int) []int {
	widths := make([]int, len(g.columns))
	all := gap * (len(g.columns) - 1)
	for i, c := range g.columns {
		widths[i] = wide(c.head)
		for _, cells := range g.rows {
			widths[i] = max(widths[i], wide(cells[i]))
		}
		all += widths[i]
	}
	screen.Narrow(widths, all-width, func(i int) int {
		if g.columns[i].elastic {
			return g.columns[i].least
		}
		return -1 // what is still too wide is cut as a line
	})
	return widths
}

// unknown stands where nobody tells.
const unknown = "?"

// fit cuts a line to a width, or fills it up; what is cut ends with an ellipsis.
func fit(text string, width int) string {
	text = screen.Clean(text)
	if width <= 0 {
		return ""
	}
	text = screen.Cut(text, width)
	return text + strings.Repeat(" ", width-screen.Width(text))
}

// fitRight is fit for numbers: what fills it up stands before them.
func fitRight(text string, width int) string {
	text = screen.Clean(text)
	if have := screen.Width(text); have < width {
		return strings.Repeat(" ", width-have) + text
	}
	return fit(text, width)
}

// wide is how many columns a text takes when it is shown.
func wide(text string) int { return screen.Width(screen.Clean(text)) }

// bar shows how many of some slots are in use.
func bar(used, all, width int) string {
	full := 0
	if all > 0 {
		full = min(width, (used*width+all-1)/all)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// clock is the time of day where the person is; with the date where that is another one.
func (m *model) clock(t time.Time) string {
	return operator.Clock{Now: m.now, Location: m.config.Location, Brief: true}.Moment(t)
}

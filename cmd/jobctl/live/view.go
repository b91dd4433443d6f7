package live

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/dustin/go-humanize"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
)

// View implements tea.Model.
func (m *model) View() tea.View {
	view := tea.NewView(m.screen())
	view.AltScreen = true
	return view
}

// screen is the window, line by line. Nothing else is ever written to the terminal.
func (m *model) screen() string {
	if m.width == 0 {
		return ""
	}
	lines := m.lines()
	if len(lines) > m.height {
		lines = lines[:m.height]
	}
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = m.paint(fit(l.text, m.width), l.tone)
	}
	return strings.Join(texts, "\n")
}

var styles = map[tone]lipgloss.Style{
	bold:   lipgloss.NewStyle().Bold(true),
	faint:  lipgloss.NewStyle().Faint(true),
	odd:    lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	bad:    lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true),
	chosen: lipgloss.NewStyle().Reverse(true),
}

// paint gives a line its colour, which no meaning depends on.
func (m *model) paint(text string, t tone) string {
	if t == plain || !m.config.Colour {
		return strings.TrimRight(text, " ")
	}
	return styles[t].Render(text)
}

// lines are those of the window, from the first to the last.
func (m *model) lines() []line {
	switch {
	case m.width < leastWidth || m.height < leastHeight:
		return []line{
			{text: fmt.Sprintf("needs %d×%d", leastWidth, leastHeight)},
			{text: fmt.Sprintf("this is %d×%d", m.width, m.height)},
			{text: "q quits"},
		}
	case m.help:
		return m.helpLines()
	}
	l := m.rooms()
	lines := append(m.headLines(), some(m.troubles(), l.troubles)...)
	for _, p := range m.panes() {
		if l.rows[p] > 0 {
			lines = append(lines, m.paneLines(p, l.rows[p])...)
		}
	}
	return m.withFoot(lines)
}

// some gives the first lines, and says how many more there are.
func some(lines []line, most int) []line {
	if len(lines) <= most || most == 0 {
		return lines[:min(len(lines), most)]
	}
	last := lines[most-1]
	last.text = fmt.Sprintf("(and %d more) %s", len(lines)-most, last.text)
	return append(lines[:most-1:most-1], last)
}

// headLines say what is looked at, and how it does on the whole.
func (m *model) headLines() []line {
	return []line{{m.both(m.daemon(), m.clock(m.now)), bold}, {m.summary(), plain}}
}

// both puts one text to the left and one to the right.
func (m *model) both(left, right string) string {
	room := m.width - wide(right) - 1
	if room < 1 {
		return left
	}
	return fit(left, room) + " " + right
}

// daemon says what is at the other end.
func (m *model) daemon() string {
	text := "jobctl top   " + m.config.Daemon
	workers := m.workers()
	if m.config.Master || len(workers) == 0 {
		return text
	}
	if s := workers[0].Value; s.Name != "" {
		text += fmt.Sprintf("   worker %s %s", s.Name, s.Version)
		if s.Started > 0 {
			text += ", up " + screen.Length(m.now.Sub(time.UnixMilli(s.Started)))
		}
	}
	return text
}

// summary is all slots and rates in one line, and of one worker what its journal has.
func (m *model) summary() string {
	if !m.fleet.known {
		return ""
	}
	heard := slices.DeleteFunc(slices.Clone(m.workers()), func(w worker) bool { return w.Err != nil })
	all := sumOf(heard...)
	text := inUse(all) + " slots"
	if all.Tells() {
		text += fmt.Sprintf("; last minute: %s started, %s ended, %s failed", humanize.Comma(int64(all.Started)), humanize.Comma(int64(all.Ended)), humanize.Comma(int64(all.Failed)))
	}
	if !m.config.Master {
		if j := m.workers()[0].Value.Journal; j != nil && j.Events >= j.Mirrored {
			text += fmt.Sprintf("; table %s behind", screen.Count(int(j.Events-j.Mirrored), "event"))
		}
		return text
	}
	text = screen.Count(len(m.workers()), "worker") + "; " + text
	if silent := len(m.workers()) - len(heard); silent > 0 {
		text = fmt.Sprintf("%d silent of %s", silent, text)
	}
	return text
}

// paneLines are a pane's title, its heads and its rows. The chosen pane has a mark before its
// title, and before the chosen row.
func (m *model) paneLines(p pane, rows int) []line {
	mark := "──"
	if p == m.chosen {
		mark = "─▸"
	}
	title := mark + " " + m.title(p, rows) + " "
	lines := []line{{title + strings.Repeat("─", max(0, m.width-wide(title))), faint}}
	if p == m.chosen {
		lines[0].tone = bold
	}
	head, texts := m.content(p, rows).lines(m.width - 2)
	lines = append(lines, line{"  " + head, faint})
	for i, text := range texts {
		if p == m.chosen && m.at[p].top+i == m.at[p].row {
			lines = append(lines, line{"> " + text, chosen})
		} else {
			lines = append(lines, line{"  " + text, plain})
		}
	}
	for range rows - len(texts) {
		lines = append(lines, line{})
	}
	return lines
}

// withFoot adds the last two lines: what is said or asked, and the keys. They stand at the bottom.
func (m *model) withFoot(lines []line) []line {
	if room := m.height - 2; len(lines) > room {
		lines = lines[:room]
	}
	for len(lines) < m.height-2 {
		lines = append(lines, line{})
	}
	return append(lines, m.message(), m.keyLine())
}

// message is what is asked, or said, or what there is to know of the chosen row.
func (m *model) message() line {
	switch {
	case m.question != nil:
		return line{m.question.text + "  (y/n)", bad}
	case m.doing != "":
		return line{m.doing + " …", bold}
	case m.now.Before(m.said.until) && m.said.bad:
		return line{m.said.text, bad}
	case m.now.Before(m.said.until):
		return line{m.said.text, bold}
	}
	return m.detail()
}

// detail is what the chosen row has no room for.
func (m *model) detail() line {
	switch m.chosen {
	case targetsPane:
		if all := m.targets(); m.at[targetsPane].row < len(all) {
			return line{m.about(all[m.at[targetsPane].row]), odd}
		}
	case jobsPane:
		if job, ok := m.chosenJob(); ok {
			text := fmt.Sprintf("job %s of %s, since %s", id(job.Job), job.Target, m.clock(since(job)))
			if job.Processes > 0 {
				text += fmt.Sprintf(", processes: %d", job.Processes)
			}
			if note := remark(job); note != "" {
				text += ", " + note
			}
			return line{text, plain}
		}
	}
	return line{}
}

// about says of a target what its row has no room for, and why nothing happens.
func (m *model) about(t operator.Tally) string {
	var parts []string
	if t.Paused > 0 {
		text := t.Target + " is paused"
		if t.Paused < t.Workers {
			text += fmt.Sprintf(" for %d of %d workers", t.Paused, t.Workers)
		}
		if text += m.sinceText(t.PausedAt); t.PausedBy != "" {
			text += " by " + t.PausedBy
		}
		parts = append(parts, text)
	}
	if w := m.waiting.answer.Targets[t.Target]; w.Error != "" {
		parts = append(parts, "can't be counted: "+w.Error)
	}
	if t.Prefetched > 0 {
		parts = append(parts, fmt.Sprintf("%s: claimed, and waiting for a slot: %s", t.Target, screen.Count(t.Prefetched, "job")))
	}
	for _, why := range t.Why {
		parts = append(parts, "nothing is claimed: "+why)
	}
	if t.Workers == 0 {
		parts = append(parts, "no worker that answers serves "+t.Target)
	}
	return strings.Join(parts, "; ")
}

package live

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// page is one job in the whole window: its story, or its output as it comes.
type page struct {
	job    Job
	follow bool // its output
	ctx    context.Context
	cancel context.CancelFunc

	story  poll[[]string]
	output poll[Output]
	place  Place
	kept   []line // of the output, the newest
	bytes  int    // of kept
	begun  [2]string
	notes  string
	ended  bool
	up     int // how many lines the person has scrolled back from the end; of a story, from the top
}

// What is kept of an output, to scroll back.
const (
	mostKeptLines = 5000
	mostKeptBytes = 4 << 20
	longestLine   = 4 << 10 // longer ones are broken
)

// firstOutput is how much is shown of what a job has written so far.
const firstOutput = 32 << 10

// storyEvery is how often a story is read anew: that costs its worker more than the other requests.
const storyEvery = 3 * time.Second

// told and printed are answers for a page. They name it: another one may be open meanwhile.
type (
	told struct {
		page *page
		answered[[]string]
	}
	printed struct {
		page *page
		answered[Output]
	}
)

// open shows a page of the chosen job.
func (m *model) open(follow bool) tea.Cmd {
	job, ok := m.needJob()
	if !ok {
		return nil
	}
	if m.page != nil {
		m.page.cancel()
	}
	m.page = &page{job: job, follow: follow, place: Place{-firstOutput, -firstOutput}}
	m.page.ctx, m.page.cancel = context.WithCancel(m.ctx)
	return nil
}

// ask asks for what the page is to show.
func (p *page) ask(m *model) tea.Cmd {
	source := m.config.Source
	if p.follow {
		every := m.config.Interval
		if p.output.err == nil && p.output.answer.More {
			every = 0
		}
		if p.ended || !p.output.due(m.now, every) {
			return nil
		}
		p.output.begin(m.now)
		behind := p.place
		return func() tea.Msg {
			answer, err := source.Output(p.ctx, p.job, behind)
			return printed{p, answered[Output]{answer, err, m.config.Now()}}
		}
	}
	if !p.story.due(m.now, max(storyEvery, m.config.Interval)) {
		return nil
	}
	p.story.begin(m.now)
	return func() tea.Msg {
		answer, err := source.Story(p.ctx, p.job)
		return told{p, answered[[]string]{answer, err, m.config.Now()}}
	}
}

// turn takes an answer for the page, if that is still open.
func (m *model) turn(msg tea.Msg) {
	switch msg := msg.(type) {
	case told:
		if msg.page == m.page {
			m.page.story.end(msg.answered)
		}
	case printed:
		if msg.page == m.page {
			m.page.output.end(msg.answered)
			m.page.add(msg.answered)
		}
	}
}

// add keeps a piece of output.
func (p *page) add(a answered[Output]) {
	if a.err != nil {
		return
	}
	before := len(p.kept)
	p.write(0, a.answer.Stdout)
	p.write(1, a.answer.Stderr)
	p.place, p.ended = a.answer.Next, a.answer.Ended
	if a.answer.Note != "" {
		p.notes = a.answer.Note
	}
	if p.up > 0 {
		p.up += len(p.kept) - before // what is looked at stays where it is
	}
	drop := 0
	for ; len(p.kept)-drop > mostKeptLines || p.bytes > mostKeptBytes; drop++ {
		p.bytes -= len(p.kept[drop].text)
	}
	p.kept = p.kept[drop:]
}

// marks tell stdout from stderr without colours.
var marks = [2]string{"  ", "! "}

// write adds whole lines of a stream, and keeps the one that is not ended.
func (p *page) write(stream int, text string) {
	lines := strings.Split(p.begun[stream]+text, "\n")
	p.begun[stream] = lines[len(lines)-1]
	for _, text := range lines[:len(lines)-1] {
		p.keep(stream, text)
	}
	for len(p.begun[stream]) > longestLine {
		p.keep(stream, p.begun[stream][:longestLine])
		p.begun[stream] = p.begun[stream][longestLine:]
	}
}

func (p *page) keep(stream int, text string) {
	for text := text; ; text = text[longestLine:] {
		piece := text[:min(len(text), longestLine)]
		p.kept = append(p.kept, line{marks[stream] + piece, plain})
		if stream == 1 {
			p.kept[len(p.kept)-1].tone = odd
		}
		if p.bytes += len(piece) + len(marks[stream]); len(text) <= longestLine {
			return
		}
	}
}

// pressOnPage does what keys are for on a page.
func (m *model) pressOnPage(name string) tea.Cmd {
	p := m.page
	switch name {
	case "enter":
		if p.follow {
			return m.open(false)
		}
	case "o":
		if !p.follow {
			return m.open(true)
		}
	case "t", "K", "x":
		m.askJob(jobAction(name), p.job)
	default:
		step := steps(m.pageRoom(), 1<<30)[name]
		if p.follow {
			step = -step // it is seen from its end
		}
		p.up = max(0, p.up+step)
	}
	return nil
}

// pageLines are the window while a page is open.
func (m *model) pageLines() []line {
	p, job := m.page, m.page.job
	title := fmt.Sprintf("job %s of %s", id(job.Job), job.Target)
	if job.Worker != "" {
		title += " on " + job.Worker
	}
	if p.follow {
		title += ": output, ! is stderr"
	}
	lines := []line{{m.both(title, m.clock(m.now)), bold}, m.pageState()}
	room, body := m.pageRoom(), p.body(m.width)
	top := p.up
	if p.follow {
		top = max(0, len(body)-room-p.up)
	}
	return m.withFoot(append(lines, shown(body, top, room)...))
}

// pageRoom is how many lines of a page are shown.
func (m *model) pageRoom() int { return max(1, m.height-4) }

// clamp keeps what is shown of a page inside of what there is.
func (m *model) clamp() {
	if p := m.page; p != nil {
		p.up = min(p.up, max(0, len(p.body(m.width))-m.pageRoom()))
	}
}

// pageState is the line below the title: what is wrong, or how far it is.
func (m *model) pageState() line {
	p := m.page
	if since, silent := m.fleet.silence(m.now); silent {
		return line{"no answer since " + m.clock(since) + ", trying again", bad}
	}
	err, waiting := p.story.err, !p.story.known
	if p.follow {
		err, waiting = p.output.err, !p.output.known
	}
	switch {
	case err != nil:
		return line{err.Error(), bad}
	case waiting:
		return line{"asking …", faint}
	case p.ended && p.notes == "":
		return line{"it has ended", bold}
	case p.up > 0 && p.follow:
		return line{fmt.Sprintf("%s back from the end", plural(p.up, "line", "lines")), faint}
	}
	return line{p.notes, odd}
}

// body is all that a page has, broken to the window's width.
func (p *page) body(width int) (lines []line) {
	if !p.follow {
		for _, text := range p.story.answer {
			for _, piece := range wrap(text, width) {
				lines = append(lines, line{piece, plain})
			}
		}
		return lines
	}
	kept := p.kept
	for stream, text := range p.begun {
		if text != "" {
			kept = append(kept[:len(kept):len(kept)], line{marks[stream] + text, plain})
		}
	}
	for _, l := range kept {
		for _, piece := range wrap(l.text, width) {
			lines = append(lines, line{piece, l.tone})
		}
	}
	return lines
}

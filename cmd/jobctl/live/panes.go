package live

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/net/api"
)

// pane is one of the tables of the view.
type pane int

const (
	workersPane pane = iota // of a master only
	targetsPane
	jobsPane
	panes // how many there are
)

// cursor is where the person is in a pane.
type cursor struct {
	row  int    // the chosen one
	top  int    // the first one that is shown
	kept bool   // of jobs: the person has chosen one, which stays chosen
	job  int64  // the chosen one
	in   string // the worker that runs it

	target string // that was chosen; "": none
	gone   bool   // what was chosen is not in the list any more
}

// size of a pane's content: how many rows there are, shown or not.
func (m *model) count(p pane) int {
	switch p {
	case workersPane:
		return len(m.workers())
	case targetsPane:
		return len(m.targets())
	}
	return max(len(m.running.answer.Jobs), min(m.running.answer.Total, api.MostRunning))
}

// title heads a pane: what is in it, and which part of it is shown.
func (m *model) title(p pane, rows int) string {
	all, top := m.count(p), m.at[p].top
	part := humanize.Comma(int64(all))
	if all > rows {
		part = fmt.Sprintf("%s–%s of %s", humanize.Comma(int64(min(all, top+1))), humanize.Comma(int64(min(all, top+rows))), part)
	}
	switch p {
	case workersPane:
		return "workers: " + part
	case targetsPane:
		return "targets: " + part + "; started, ended, failed in the last minute"
	}
	order := map[string]string{api.SortAge: "oldest", api.SortCPU: "most processor time", api.SortMemory: "most memory"}[m.sort]
	text := "running jobs: " + part + ", " + order + " first"
	if r := m.running.answer; !m.running.known || r.Total == 0 && len(r.Errors) > 0 {
		text = "running jobs: not known"
	}
	return text
}

// content makes the rows of a pane that are shown.
func (m *model) content(p pane, rows int) *grid {
	switch p {
	case workersPane:
		return m.workerRows(rows)
	case targetsPane:
		return m.targetRows(rows)
	}
	return m.jobRows(rows)
}

// shown cuts a list to the part that a pane has room for.
func shown[T any](all []T, top, rows int) []T {
	top = min(max(0, top), len(all))
	return all[top:min(len(all), top+max(0, rows))]
}

func (m *model) workerRows(rows int) *grid {
	g := &grid{columns: []column{
		{head: "WORKER", elastic: true, least: 8},
		{head: "ADDRESS", elastic: true, least: 7},
		{head: "RUNNING", right: true},
		{head: "START", right: true},
		{head: "END", right: true},
		{head: "FAIL", right: true},
		{head: "UP", right: true},
		{head: "STATE", elastic: true, least: 12},
	}}
	for _, w := range shown(m.workers(), m.at[workersPane].top, rows) {
		if w.Err != nil {
			g.add(nameOf(w), w.From.Address, unknown, unknown, unknown, unknown, unknown, w.Err.Error())
			continue
		}
		sum := sumOf(w)
		started, ended, failed := rates(sum)
		up := unknown
		if w.Value.Started > 0 {
			up = screen.Length(m.now.Sub(time.UnixMilli(w.Value.Started)))
		}
		g.add(nameOf(w), w.From.Address, inUse(sum), started, ended, failed, up, m.state(w.From.Name))
	}
	return g
}

func (m *model) targetRows(rows int) *grid {
	width := 8
	if m.width >= 120 {
		width = 20
	}
	g := &grid{columns: []column{
		{head: "TARGET", elastic: true, least: 8},
		{head: "SLOTS", elastic: true, least: 0},
		{head: "RUNNING", right: true},
		{head: "WAITING", right: true},
		{head: "OLDEST", right: true},
		{head: "START", right: true},
		{head: "END", right: true},
		{head: "FAIL", right: true},
		{head: "EMPTY IN", right: true},
	}}
	for _, t := range shown(m.targets(), m.at[targetsPane].top, rows) {
		started, ended, failed := rates(t)
		slots := ""
		if t.Tells() {
			slots = bar(t.Running, t.Slots, width)
		}
		waiting, oldest, empty := m.waitingTexts(t)
		g.add(t.Target, slots, inUse(t), waiting, oldest, started, ended, failed, empty)
	}
	return g
}

// waitingTexts say what waits for a target, how long the oldest of it has, and until when.
func (m *model) waitingTexts(t operator.Tally) (count, oldest, empty string) {
	w, counted := m.waiting.answer.Targets[t.Target]
	if count = unknown; counted && w.Error == "" {
		count = operator.Counted(w.Count, w.More)
	}
	if w.Oldest > 0 {
		oldest = screen.Length(m.now.Sub(time.Unix(w.Oldest, 0)))
	}
	if empty = t.EmptyText(w, counted); t.Paused > 0 {
		empty = "paused"
		if t.Paused < t.Workers {
			empty += fmt.Sprintf(" %d/%d", t.Paused, t.Workers)
		}
	}
	return count, oldest, empty
}

func (m *model) jobRows(rows int) *grid {
	g := &grid{columns: []column{{head: "JOB", right: true}, {head: "TARGET", elastic: true, least: 8}}}
	if m.config.Master {
		g.columns = append(g.columns, column{head: "WORKER", elastic: true, least: 8})
	}
	g.columns = append(g.columns, column{head: "PID", right: true}, column{head: "TRY", right: true}, column{head: "ELAPSED", right: true},
		column{head: "CPU", right: true}, column{head: "MEMORY", right: true}, column{head: "NOTE", elastic: true, least: 4})
	for _, job := range shown(m.running.answer.Jobs, m.at[jobsPane].top, rows) {
		cells := []string{id(job.Job), job.Target}
		if m.config.Master {
			cells = append(cells, job.Worker)
		}
		pid, used, memory := unknown, unknown, unknown
		if job.PID > 0 {
			pid = fmt.Sprint(job.PID)
		}
		if job.CPU != nil {
			used = screen.ShortLength(time.Duration(*job.CPU) * time.Millisecond)
		}
		if job.Memory != nil {
			memory = humanize.IBytes(uint64(max(0, *job.Memory)))
		}
		g.add(append(cells, pid, job.Try(), screen.Length(m.elapsed(job)), used, memory, remark(job))...)
	}
	return g
}

// elapsed is for how long a job has run: as its worker measured it, or else by the clocks of both.
func (m *model) elapsed(job Job) time.Duration {
	if job.Elapsed != nil {
		return time.Duration(*job.Elapsed)*time.Millisecond + m.now.Sub(m.running.good)
	}
	return m.now.Sub(since(job))
}

// remark is what else is to be known of a job.
func remark(job Job) string {
	switch {
	case job.Cancelled:
		return "cancelled"
	case job.Adopted:
		return "its runner is gone"
	case job.Manual:
		return "by hand"
	case job.Recurs:
		return "recurs"
	}
	return ""
}

// worker is a worker, and what it says of itself.
type worker = operator.Answer[*api.WorkerStatus]

// workers are the one at the other end, or those of the master there.
func (m *model) workers() []worker {
	if m.fleet.answer == nil {
		return nil
	}
	return m.fleet.answer.Workers
}

// nameOf is a worker's name, as its master knows it, or else as it says.
func nameOf(w worker) string {
	if w.From.Name == "" && w.Value != nil {
		return w.Value.Name
	}
	return w.From.Name
}

// targets are all of them, by name, each summed up over the workers that serve it.
func (m *model) targets() (all []operator.Tally) {
	if m.fleet.answer == nil {
		return nil
	}
	all = m.fleet.answer.Tallies()
	for _, w := range m.workers() {
		for _, name := range w.From.Targets { // of which maybe only a silent one tells
			at, known := slices.BinarySearchFunc(all, name, func(t operator.Tally, name string) int { return strings.Compare(t.Target, name) })
			if !known && w.Err != nil {
				all = slices.Insert(all, at, operator.Tally{Target: name})
			}
		}
	}
	return all
}

// sumOf adds up all targets of some workers.
func sumOf(workers ...worker) (sum operator.Tally) {
	for _, t := range (&operator.Census{Workers: workers}).Tallies() {
		sum.Add(t)
	}
	return sum
}

// inUse is how many slots are in use, of how many.
func inUse(t operator.Tally) string {
	switch {
	case !t.Tells() && t.Slots == 0:
		return unknown
	case !t.Tells():
		return fmt.Sprintf("%s/%d", unknown, t.Slots)
	}
	return fmt.Sprintf("%d/%d", t.Running, t.Slots)
}

// rates are what was started, has ended and has failed within the last minute.
func rates(t operator.Tally) (started, ended, failed string) {
	if !t.Tells() {
		return unknown, unknown, unknown
	}
	return fmt.Sprint(t.Started), fmt.Sprint(t.Ended), fmt.Sprint(t.Failed)
}

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

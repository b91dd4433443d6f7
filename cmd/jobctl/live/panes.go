package live

import (
	"fmt"
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

package board

import (
	"maps"

	"pgregory.net/rapid"

	"jobd/journal"
)

// crash has the worker killed, and started again with what the journal has. The runner lives on, or
// is killed as well, with some of what it ran.
func (w *world) crash(lived bool) bool {
	for _, c := range []*Claim{w.claim, w.manual} {
		if c != nil && rapid.Bool().Draw(w.T, "committed") {
			w.commit(c)
		}
	}
	before := maps.Clone(w.kept)
	for j, p := range w.process {
		before[j.start()] = p
	}
	w.requestsDie(before)
	for _, s := range w.asking { // the runner reads what it was sent
		if s.executor == "http" {
			w.withdrawn[s.Seq] = true
			continue
		}
		before[s.start()] = &process{job: s.Job}
	}
	for _, c := range w.clients {
		c.gone = true
	}
	w.configure()
	w.b = New(w.config)
	w.claim, w.manual, w.turn, w.start, w.shown, w.asking, w.renewed, w.empty = nil, nil, nil, nil, nil, nil, nil, nil
	w.looks, w.stopped, w.wishes = nil, false, nil
	clear(w.process)
	clear(w.clients)
	clear(w.paused)
	clear(w.unable)
	clear(w.skips)
	for _, old := range w.state.Unfinished() {
		w.former[old.ID] = true
		w.orphans[old.ID] = w.orphans[old.ID] || !lived
		p := before[start{old.ID, old.Token, old.Attempt}]
		switch {
		case !w.orphans[old.ID]:
			w.takeUp(old, p, true)
		case p != nil && p.ended == nil && old.Status == journal.StatusRunning && rapid.Bool().Draw(w.T, "outlives its runner"):
			p.stray = true
			w.takeUp(old, p, false)
		default:
			w.takeUp(old, nil, false)
		}
	}
	return true
}

// configure has the next start serve what this one does, or one target less, or one more.
func (w *world) configure() {
	targets := make(map[string]int)
	for name, t := range w.b.targets {
		targets[name] = t.concurrency
	}
	switch name := w.target(); {
	case rapid.IntRange(0, 2).Draw(w.T, "others are served at 0") > 0:
	case targets[name] > 0:
		delete(targets, name)
	default:
		targets[name], w.limit[name] = 1, 1
	}
	w.config.Targets = targets
}

// takeUp goes on with a job of the worker that was killed.
func (w *world) takeUp(old journal.Job, p *process, lived bool) {
	if request := old.Executor == "http"; p == nil || request || old.Status == journal.StatusAccepted {
		w.after(w.b.TakeUp(old, lived || request, journal.Done{}))
		return
	}
	p.job = w.b.Adopt(old, p)
	if p.ended != nil {
		w.after(w.b.Ended(p.job, p.started(), *p.ended))
		return
	}
	w.process[p.job] = p
	if p.begun {
		w.after(w.b.Began(p.job, p.started(), w.now))
	}
}

// commit makes the rows of a claim what it decided.
func (w *world) commit(c *Claim) {
	for _, e := range c.Events {
		row := w.rows[e.Job]
		switch p := e.Payload.(type) {
		case journal.Accepted:
			row.Status, row.Owner = journal.RowAccepted, p.Token
			row = plansAt(row, p.PlannedAt)
		case journal.Running:
			row = starts(row, p)
		case journal.Planned:
			row = comesBack(row, &p.To)
		case journal.Ignored:
			row.Status = journal.RowIgnored
		}
		w.rows[e.Job] = row
	}
}

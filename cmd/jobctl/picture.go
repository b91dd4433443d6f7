package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
)

// What a picture is made of, in pixels. Bars narrower than leastBar are not drawn one by one: each
// pixel of a lane shows how much of its time was used, by which target most, and whether a job
// failed. So the size of a picture depends on its lanes and not on the jobs.
const (
	plotWidth = 1200
	leastBar  = 6
	mostLanes = 64 // of all workers; the jobs in further slots share a worker's last lane
	noTarget  = -1
)

// picture gathers what happened, as it is to be drawn.
type picture struct {
	from, to time.Time
	location *time.Location
	workers  []*drawnWorker
	byWorker map[source]*drawnWorker
	targets  []string // in the order in which they appear
	colours  map[string]int
	bars     int
}

// drawnWorker is one worker's part of a picture.
type drawnWorker struct {
	name    string
	lanes   []*lane
	jobs    map[int64]*bar // that run
	claimed map[int64]string
	planned map[int64]int64 // when runs were to begin that were planned for a time
	last    time.Time       // of its newest event
	open    bool            // it runs
	outages []outage
}

// outage is a time without a worker: from its end, or the last that was heard of it, to its next
// start.
type outage struct {
	from, to time.Time
	crash    bool // it did not end in order
}

// lane is one slot over time.
type lane struct {
	busy  bool // a job is in it
	cells [plotWidth]pixel
	bars  []bar
	marks map[int]bool // pixels with a signal
}

// pixel is one pixel's width of a lane.
type pixel struct {
	used   float32 // share of its time
	most   float32 // share of the target that used most of it
	target int16
	failed bool
}

// bar is one attempt of a job.
type bar struct {
	job        int64
	slot       int
	target     int
	start, end time.Time
	outcome    string
	failed     bool
	attempt    int    // 0: not told
	late       string // how much later than planned it began; "": it was not planned for a time
}

func newPicture(from, to time.Time, location *time.Location) *picture {
	if !to.After(from) {
		to = from.Add(time.Second)
	}
	return &picture{from: from, to: to, location: location, byWorker: make(map[source]*drawnWorker), colours: make(map[string]int)}
}

// x is where a time is, in pixels from the plot's left edge.
func (p *picture) x(at time.Time) float64 {
	return min(plotWidth, max(0, plotWidth*float64(at.Sub(p.from))/float64(p.to.Sub(p.from))))
}

// add takes in an event; each worker's events come in order.
func (p *picture) add(e from[journal.Event]) {
	w := p.worker(e.source)
	at, job := e.item.Time, e.item.Job
	switch payload := e.item.Payload.(type) {
	case journal.Opened:
		if w.name == "" {
			w.name = payload.Name
		}
		if !w.last.IsZero() {
			w.outages = append(w.outages, outage{w.last, at, w.open})
		}
		w.open = true
	case journal.Closed:
		w.open = false
	case journal.Accepted:
		w.claimed[job] = payload.Target
		if delete(w.planned, job); payload.From == journal.RowDelayed || payload.Plan != nil && payload.Plan.PlannedAt != 0 {
			w.planned[job] = payload.PlannedAt
		}
	case journal.Running:
		p.finish(w, job, at, "started again", true)
		p.begin(w, job, at)
		if b := w.jobs[job]; b != nil {
			b.attempt, b.late = payload.Attempt, lateText(w.planned[job], payload.Attempt, at)
		}
	case journal.Signal:
		if running := w.jobs[job]; running != nil {
			w.lanes[running.slot].mark(int(p.x(at)))
		}
	case journal.Done:
		ended := history.Job{Status: journal.StatusDone, Result: payload.Result, Code: payload.Code, Signal: payload.Signal}
		p.finishDone(w, job, at, payload, drawnOutcome(payload, outcome(ended)))
		w.forget(job)
	case journal.Cancelled:
		if !payload.Runs {
			p.finish(w, job, at, "cancelled", false)
			w.forget(job)
		}
	case journal.Released:
		p.finish(w, job, at, "given back", false)
		w.forget(job)
	}
	w.last = at
}

func (p *picture) worker(s source) *drawnWorker {
	w := p.byWorker[s]
	if w == nil {
		w = &drawnWorker{name: s.worker(), jobs: make(map[int64]*bar), claimed: make(map[int64]string), planned: make(map[int64]int64), open: true}
		p.byWorker[s] = w
		p.workers = append(p.workers, w)
	}
	return w
}

// begin puts a job into the first lane that is free.
func (p *picture) begin(w *drawnWorker, job int64, at time.Time) {
	slot := 0
	for slot < len(w.lanes) && w.lanes[slot].busy {
		slot++
	}
	if slot == len(w.lanes) {
		if p.lanes() < mostLanes || slot == 0 {
			w.lanes = append(w.lanes, &lane{marks: make(map[int]bool)})
		} else {
			slot--
		}
	}
	w.lanes[slot].busy = true
	w.jobs[job] = &bar{job: job, slot: slot, target: p.colour(w.claimed[job]), start: at}
}

func (p *picture) lanes() int {
	n := 0
	for _, w := range p.workers {
		n += len(w.lanes)
	}
	return n
}

// colour is the number of a target.
func (p *picture) colour(target string) int {
	if target == "" {
		return noTarget // it was claimed before the picture begins
	}
	n, known := p.colours[target]
	if !known {
		n = len(p.targets)
		p.colours[target] = n
		p.targets = append(p.targets, target)
	}
	return n
}

// finishDone ends the bar of a job that is done: it is as long as the job ran, where that is known.
func (p *picture) finishDone(w *drawnWorker, job int64, at time.Time, done journal.Done, outcome string) {
	if b := w.jobs[job]; b != nil {
		ran, known := ranFor(done, b.start, at)
		if known {
			at = b.start.Add(ran)
		} else {
			outcome += ", " + notKnown + " how long it ran"
		}
	}
	p.finish(w, job, at, outcome, done.Result != "ok")
}

// finish ends a job's bar, where it has one.
func (p *picture) finish(w *drawnWorker, job int64, at time.Time, outcome string, failed bool) {
	b := w.jobs[job]
	if b == nil {
		return
	}
	delete(w.jobs, job)
	b.end, b.outcome, b.failed = at, outcome, failed
	l := w.lanes[b.slot]
	l.busy = false
	p.bars++
	from, to := p.x(b.start), p.x(b.end)
	if to-from >= leastBar {
		l.bars = append(l.bars, *b)
		return
	}
	l.cover(from, to, b.target, failed)
}

// end ends the bars of jobs that still run, and puts the workers in the order of their names.
func (p *picture) end() {
	slices.SortStableFunc(p.workers, func(a, b *drawnWorker) int { return cmp.Compare(a.name, b.name) })
	for _, w := range p.workers {
		for job := range w.jobs {
			p.finish(w, job, p.to, "still running", false)
		}
	}
}

func (l *lane) mark(x int) { l.marks[min(x, plotWidth-1)] = true }

// cover adds a narrow bar to the cells under it.
func (l *lane) cover(from, to float64, target int, failed bool) {
	last := min(int(to), plotWidth-1)
	for x := min(int(from), last); x <= last; x++ {
		c := &l.cells[x]
		share := float32(min(to, float64(x+1)) - max(from, float64(x)))
		if c.used == 0 || share > c.most {
			c.most, c.target = share, int16(target)
		}
		c.used += max(share, 0.01) // what happened is seen, however short it was
		c.failed = c.failed || failed
	}
}

// times tells when a bar was.
func (p *picture) times(b bar) string {
	return fmt.Sprintf("%s – %s", b.start.In(p.location).Format(time.DateTime), b.end.In(p.location).Format(time.TimeOnly))
}

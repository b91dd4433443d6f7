package store

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"jobd/journal"
)

// trial is changes that were tried, and what is to be done about them.
type trial struct {
	changes  []Change
	outcomes []Outcome
	behind   []Change // changes that wait behind others, untried
	upTo     uint64   // the events that this was all of; 0: these were aside

	conflicts []journal.Draft
	notices   []journal.Draft // of rows that are set aside
	gaveBack  []string        // targets of rows that wait again, or come back late
}

// progress is how far the table shows the journal, and who waits for that. The mirror's goroutine
// alone changes it, but for those who begin to wait; its methods are safe for concurrent use.
type progress struct {
	bookmark Bookmark

	mu      sync.Mutex
	tried   uint64 // all events up to here are in the table, set aside or in conflict
	aside   backlog
	waiting watchers // for events that were not tried yet
	waitAll watchers // for changes of any job that are aside
}

// newProgress begins where the bookmark is.
func newProgress(b Bookmark) *progress {
	return &progress{
		bookmark: b, tried: b.Position(),
		aside: backlog{rows: make(map[int64]*aside), formerly: make(map[int64]former), oldest: forEver, share: batchSize},
	}
}

// Applied is the newest event up to which the table shows everything that it would take.
func (p *progress) Applied() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.position()
}

// Standing tells up to which event all were tried, and whether the job's row is owed some of these
// still.
func (p *progress) Standing(job int64) (tried uint64, owed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tried, p.aside.rows[job] != nil
}

// Reached is the event up to which the mirror has tried to show all.
func (p *progress) Reached() uint64 { return p.triedUpTo() }

func (p *progress) triedUpTo() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tried
}

// position is what the bookmark may say: it never passes the oldest event of a row that is aside.
// Callers must hold p.mu.
func (p *progress) position() uint64 { return min(p.tried, p.aside.oldest-1) }

// Shown gives a channel that is closed when the mirror is done with event seq of a job, and with
// all before it of the same job: the table shows it, or the journal holds a conflict instead. For
// job 0 it is closed when that holds for all jobs.
func (p *progress) Shown(seq uint64, job int64) <-chan struct{} {
	return p.watch(watcher{seq: seq, job: job})
}

// Tried gives a channel that is closed when the mirror has tried to show event seq and all before
// it. Rows that can't be updated for now are aside, and are not waited for.
func (p *progress) Tried(seq uint64) <-chan struct{} {
	return p.watch(watcher{seq: seq, tried: true})
}

func (p *progress) watch(w watcher) <-chan struct{} {
	w.done = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.seq > p.tried {
		heap.Push(&p.waiting, w)
	} else {
		p.place(w)
	}
	return w.done
}

// place ends the waiting for an event that was tried, or lets it wait for the rows that are aside.
// Callers must hold p.mu.
func (p *progress) place(w watcher) {
	switch a := p.aside.rows[w.job]; {
	case w.tried, w.job != 0 && (a == nil || a.first() > w.seq), w.job == 0 && p.aside.oldest > w.seq:
		close(w.done)
	case w.job != 0:
		a.watchers = append(a.watchers, w)
	default:
		heap.Push(&p.waitAll, w)
	}
}

// releaseReached ends the waiting for what is reached by now. Callers must hold p.mu.
func (p *progress) releaseReached() {
	for len(p.waiting) > 0 && p.waiting[0].seq <= p.tried {
		p.place(heap.Pop(&p.waiting).(watcher))
	}
	for len(p.waitAll) > 0 && p.waitAll[0].seq < p.aside.oldest {
		close(heap.Pop(&p.waitAll).(watcher).done)
	}
}

// listAside lists the rows that can't be updated for now, by job.
func (p *progress) listAside() []Aside {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.aside.list()
}

// conclude takes in what became of changes, notes the position and ends the waiting for it.
func (p *progress) conclude(t trial) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range t.changes {
		if o := t.outcomes[i]; o.Fate == Held || o.Fate == Refused {
			p.aside.set(c, o, slices.ContainsFunc(t.notices, func(d journal.Draft) bool { return d.Job == c.Job }), now)
		} else if t.upTo == 0 {
			p.aside.endFirst(c.Job, now)
		}
	}
	for _, c := range t.behind {
		p.aside.follow(c)
	}
	if t.upTo > 0 {
		p.tried = t.upTo
	}
	p.aside.recall()
	p.aside.reckon(now)
	p.bookmark.SetPosition(p.position())
	p.releaseReached()
}

// asideDue lists the changes that are aside and to be tried now.
func (p *progress) asideDue(now time.Time) []Change {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := p.aside.due(now)
	if len(changes) == 0 {
		p.aside.reckon(now) // what was due may have to wait for its pace
	}
	return changes
}

// owe sets aside a change of events that were mirrored before, unless the job has changes aside
// already: these come to the same.
func (p *progress) owe(c Change, o Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.aside.rows[c.Job] == nil {
		c.first = p.tried
		now := time.Now()
		p.aside.set(c, o, false, now)
		p.aside.reckon(now)
	}
}

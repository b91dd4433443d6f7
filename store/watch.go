package store

import (
	"container/heap"
	"math"
)

// watcher waits for one event to be in the table, or to have been tried.
type watcher struct {
	seq   uint64
	job   int64 // 0: all jobs
	tried bool  // that it was tried is enough
	told  chan struct{}
}

// watchers is a heap of these, the oldest event first.
type watchers []watcher

func (w watchers) Len() int           { return len(w) }
func (w watchers) Less(i, j int) bool { return w[i].seq < w[j].seq }
func (w watchers) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

// Push implements heap.Interface.
func (w *watchers) Push(x any) { *w = append(*w, x.(watcher)) }

// Pop implements heap.Interface.
func (w *watchers) Pop() any {
	last := len(*w) - 1
	one := (*w)[last]
	(*w)[last] = watcher{}
	*w = (*w)[:last]
	return one
}

// forEver is behind all events.
const forEver = math.MaxUint64

// Applied is the newest event up to which the table shows everything that it would take.
func (m *Mirror) Applied() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.position()
}

// Standing tells up to which event all were tried, and whether the job's row is owed some of these
// still.
func (m *Mirror) Standing(job int64) (tried uint64, owed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tried, m.aside[job] != nil
}

func (m *Mirror) triedUpTo() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tried
}

// position is what the bookmark may say: it never passes the oldest event of a row that is aside.
// The lock is held.
func (m *Mirror) position() uint64 { return min(m.tried, m.oldest-1) }

// Shown gives a channel that is closed when the mirror is done with event seq of a job, and with
// all before it of the same job: the table shows it, or the journal holds a conflict instead. For
// job 0 it is closed when that holds for all jobs.
func (m *Mirror) Shown(seq uint64, job int64) <-chan struct{} {
	return m.watch(watcher{seq: seq, job: job})
}

// Tried gives a channel that is closed when the mirror has tried to show event seq and all before
// it. Rows that can't be updated for now are aside, and are not waited for.
func (m *Mirror) Tried(seq uint64) <-chan struct{} {
	return m.watch(watcher{seq: seq, tried: true})
}

func (m *Mirror) watch(w watcher) <-chan struct{} {
	w.told = make(chan struct{})
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.seq > m.tried {
		heap.Push(&m.waiting, w)
	} else {
		m.place(w)
	}
	return w.told
}

// place tells a watcher whose event was tried, or lets it wait for the rows that are aside. The
// lock is held.
func (m *Mirror) place(w watcher) {
	switch a := m.aside[w.job]; {
	case w.tried, w.job != 0 && (a == nil || a.first() > w.seq), w.job == 0 && m.oldest > w.seq:
		close(w.told)
	case w.job != 0:
		a.watchers = append(a.watchers, w)
	default:
		heap.Push(&m.waitAll, w)
	}
}

// tell tells who waits for what is reached by now. The lock is held.
func (m *Mirror) tell() {
	for len(m.waiting) > 0 && m.waiting[0].seq <= m.tried {
		m.place(heap.Pop(&m.waiting).(watcher))
	}
	for len(m.waitAll) > 0 && m.waitAll[0].seq < m.oldest {
		close(heap.Pop(&m.waitAll).(watcher).told)
	}
}

// toldBefore tells the watchers of events before first, and gives the others.
func toldBefore(list []watcher, first uint64) (left []watcher) {
	for _, w := range list {
		if w.seq < first {
			close(w.told)
		} else {
			left = append(left, w)
		}
	}
	return left
}

// Away gives a channel that is closed as long as the table cannot be reached.
func (m *Mirror) Away() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.away
}

// setAway notes whether the table can be reached, and tells whether it can again.
func (m *Mirror) setAway(away bool) (returned bool) {
	m.mu.Lock()
	changed := m.isAway != away
	m.isAway = away
	if changed && away {
		close(m.away)
	} else if changed {
		m.away = make(chan struct{})
	}
	m.mu.Unlock()
	returned = changed && !away
	if returned && m.OnReturn != nil {
		m.OnReturn()
	}
	return returned
}

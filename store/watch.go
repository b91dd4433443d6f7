package store

import (
	"math"
)

// watcher waits for one event to be in the table, or to have been tried.
type watcher struct {
	seq   uint64
	job   int64         // 0: all jobs
	tried bool          // that it was tried is enough
	done  chan struct{} // closed when that is so
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

// release ends the waiting for events before first, and gives the other watchers.
func release(list []watcher, first uint64) (left []watcher) {
	for _, w := range list {
		if w.seq < first {
			close(w.done)
		} else {
			left = append(left, w)
		}
	}
	return left
}

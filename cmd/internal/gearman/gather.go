package gearman

import (
	"slices"
	"sync"

	"jobd/net/gearman"
)

const (
	mostAtOnce = 1000     // submissions that are taken together
	mostBytes  = 64 << 20 // of their workloads, about
)

// gathered hands on submissions in their order: all that have come meanwhile together.
type gathered struct {
	tasks *sync.WaitGroup
	take  func(batch []*gearman.Submission) // one call at a time

	mu     sync.Mutex
	queue  []*gearman.Submission
	taking bool
}

func (g *gathered) add(some ...*gearman.Submission) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = append(g.queue, some...)
	if !g.taking {
		g.taking = true
		g.tasks.Go(func() {
			for batch := g.next(); len(batch) > 0; batch = g.next() {
				g.take(batch)
			}
		})
	}
}

// next is what is taken together; nothing: there is nothing more.
func (g *gathered) next() []*gearman.Submission {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, bytes := 0, 0
	for n < min(len(g.queue), mostAtOnce) && bytes < mostBytes {
		bytes += len(g.queue[n].Workload.Bytes)
		n++
	}
	batch := slices.Clone(g.queue[:n])
	clear(g.queue[:n])
	if g.queue = g.queue[n:]; n == 0 {
		g.queue, g.taking = nil, false
	}
	return batch
}

// cut takes out of the queue what is of a kind.
func (g *gathered) cut(is func(*gearman.Submission) bool) (some []*gearman.Submission) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = slices.DeleteFunc(g.queue, func(s *gearman.Submission) bool {
		if is(s) {
			some = append(some, s)
		}
		return is(s)
	})
	return some
}

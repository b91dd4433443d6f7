package master

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	jobnet "jobd/net"
)

// silentAfter is how long a ping may go unanswered until others are given jobs by hand first.
const silentAfter = 500 * time.Millisecond

// assign gives jobs to workers: each, of which duplicates count once, to the worker that serves its
// target and is the least loaded then, among equals to the one whose turn it is. Those that were tried
// get none, and those that owe an answer only where all do. Jobs of targets that nobody else serves
// are left. The caller must have the workers take the jobs back.
//
// Jobs may be many, and workers and targets too: each worker is looked at once, not for each job.
func (r *registry) assign(jobs []job, tried []*worker, now time.Time) (shares map[*worker][]job, left []job) {
	var targets []string
	byTarget, seen := make(map[string][]job), make(map[jobnet.Whole]bool, len(jobs))
	for _, j := range jobs {
		if !seen[j.ID] {
			seen[j.ID] = true
			if byTarget[j.Target] == nil {
				targets = append(targets, j.Target)
			}
			byTarget[j.Target] = append(byTarget[j.Target], j)
		}
	}
	r.assigning.Lock()
	defer r.assigning.Unlock()
	shares = make(map[*worker][]job)
	candidates := r.candidates(selectionOf(targets), tried, now)
	for _, target := range targets {
		if c := candidates[target]; c != nil {
			r.spread(c, byTarget[target], shares)
		} else {
			left = append(left, byTarget[target]...)
		}
	}
	return shares, left
}

// spread gives jobs of one target to the candidates.
func (r *registry) spread(candidates ranking, jobs []job, shares map[*worker][]job) {
	for _, c := range candidates { // the jobs of other targets may have changed it
		_, c.last = c.worker.load(jobs[0].Target, time.Time{})
	}
	heap.Init(&candidates)
	for _, j := range jobs {
		least := candidates[0]
		r.turns++
		least.load, least.last = least.load+1, r.turns
		least.worker.give(j.Target, r.turns)
		shares[least.worker] = append(shares[least.worker], j)
		heap.Fix(&candidates, 0)
	}
}

// candidate is a worker that serves a target, and how loaded it is.
type candidate struct {
	worker *worker
	like   int // 1 where it serves the target by a like name only, else 0
	silent int // 1 where it owes an answer, else 0
	load   int
	last   uint64 // the registry's count when it was last given a job
}

// ranking is a heap of candidates, the next one to get a job first. Those that serve the very name
// come before all others.
type ranking []*candidate

func (r ranking) Len() int      { return len(r) }
func (r ranking) Swap(i, j int) { r[i], r[j] = r[j], r[i] }
func (r ranking) Push(any)      {} // nobody comes or goes
func (r ranking) Pop() any      { return nil }
func (r ranking) Less(i, j int) bool {
	a, b := r[i], r[j]
	return cmp.Or(cmp.Compare(a.like, b.like), cmp.Compare(a.silent, b.silent),
		cmp.Compare(a.load, b.load), cmp.Compare(a.last, b.last)) < 0
}

// candidates are the workers that serve the targets, by target.
func (r *registry) candidates(wanted selection, tried []*worker, now time.Time) map[string]ranking {
	candidates := make(map[string]ranking)
	for _, w := range r.all() {
		if slices.Contains(tried, w) {
			continue
		}
		p, silent := w.profile.Load(), 0
		if w.link.Silence() > silentAfter {
			silent = 1
		}
		_, names := p.match(wanted)
		for _, target := range names {
			c := &candidate{worker: w, silent: silent}
			c.load, c.last = w.load(target, now)
			if !p.serves(target) {
				c.like = 1
			}
			candidates[target] = append(candidates[target], c)
		}
	}
	return candidates
}

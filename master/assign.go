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
// are left. The caller must have the workers' jobs taken back.
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
	r.mu.Lock()
	defer r.mu.Unlock()
	shares = make(map[*worker][]job)
	candidates := r.candidates(selectionOf(targets), tried, now)
	for _, target := range targets {
		next := candidates[target]
		if len(next) == 0 {
			left = append(left, byTarget[target]...)
			continue
		}
		heap.Init(next)
		for _, j := range byTarget[target] {
			w := next[0].worker
			r.turns++
			w.given = r.turns
			w.inFlight[target]++
			next[0].load++
			shares[w] = append(shares[w], j)
			heap.Fix(next, 0)
		}
	}
	return shares, left
}

// candidate is a worker that serves a target.
type candidate struct {
	worker *worker
	silent int // 1 where it owes an answer, else 0
	load   int
}

// candidates are the workers that serve the targets, by target. Callers must hold mu.
func (r *registry) candidates(wanted selection, tried []*worker, now time.Time) map[string]ranking {
	candidates := make(map[string]ranking)
	for _, w := range r.workers {
		if slices.Contains(tried, w) {
			continue
		}
		silent := 0
		if w.link.Silence() > silentAfter {
			silent = 1
		}
		for _, target := range w.profile.Load().match(wanted) {
			candidates[target] = append(candidates[target], candidate{w, silent, w.load(target, now)})
		}
	}
	return candidates
}

// ranking is a heap of the candidates for a target, the next one to get a job first.
type ranking []candidate

func (r ranking) Len() int      { return len(r) }
func (r ranking) Swap(i, j int) { r[i], r[j] = r[j], r[i] }
func (r ranking) Push(any)      {} // nobody comes or goes
func (r ranking) Pop() any      { return nil }
func (r ranking) Less(i, j int) bool {
	a, b := r[i], r[j]
	return cmp.Or(cmp.Compare(a.silent, b.silent), cmp.Compare(a.load, b.load), cmp.Compare(a.worker.given, b.worker.given)) < 0
}

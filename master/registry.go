package master

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	jobnet "jobd/net"
)

// lengthKeeps is for how long the queue length that a worker told is taken for true.
const lengthKeeps = time.Minute

// profile is what a worker registered with. It never changes; a new registration makes a new one.
type profile struct {
	name    string
	targets []string // in the order given, each once
}

// worker is one registered worker. It is known by its link.
type worker struct {
	link    *jobnet.Link
	profile atomic.Pointer[profile]

	polls pollQueue

	mu       sync.Mutex
	inFlight map[string]int // manual jobs that we gave it and that are not answered, by target
	others   map[string]int // what else was in its queues when it last told their lengths, by target
	told     time.Time      // when that was
	given    uint64         // the registry's count when it was last given a job
}

func (w *worker) name() string { return w.profile.Load().name }

func (w *worker) serves(target string) bool { return slices.Contains(w.profile.Load().targets, target) }

// served gives those of its targets that are among the given ones.
func (w *worker) served(among map[string]bool) []string {
	var served []string
	for _, target := range w.profile.Load().targets {
		if among[target] {
			served = append(served, target)
		}
	}
	return served
}

// load is how many jobs of a target are thought to be with the worker.
func (w *worker) load(target string, now time.Time) (jobs int, lastGiven uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	jobs = w.inFlight[target]
	if now.Sub(w.told) < lengthKeeps {
		jobs += w.others[target]
	}
	return jobs, w.given
}

// give counts a job as being with the worker; turn is the registry's count.
func (w *worker) give(target string, turn uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight[target]++
	w.given = turn
}

// takeBack ends what give began.
func (w *worker) takeBack(target string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inFlight[target]--; w.inFlight[target] <= 0 {
		delete(w.inFlight, target)
	}
}

// noteLengths remembers the lengths of the worker's queues, by target.
func (w *worker) noteLengths(lengths map[string]int, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = now
	w.others = make(map[string]int, len(lengths))
	for target, length := range lengths {
		w.others[target] = max(0, length-w.inFlight[target])
	}
}

// registry knows the workers, in the order in which they registered. It is safe for concurrent use.
type registry struct {
	mu      sync.Mutex
	workers []*worker
	turns   uint64 // jobs given so far
}

// put registers the worker at the other end of link; when it did so before, its profile is replaced.
func (r *registry) put(link *jobnet.Link, p *profile) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.workers, func(w *worker) bool { return w.link == link })
	if at < 0 {
		at = len(r.workers)
		r.workers = append(r.workers, &worker{link: link, inFlight: make(map[string]int)})
	}
	r.workers[at].profile.Store(p)
	return r.workers[at]
}

func (r *registry) remove(w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers = slices.DeleteFunc(slices.Clone(r.workers), func(other *worker) bool { return other == w })
}

// all is a snapshot.
func (r *registry) all() []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.workers)
}

// assign gives so many jobs of the target, each to the worker that serves it and is the least loaded then, among equals to
// the one whose turn it is; none where nobody serves it. The caller must have the workers take the jobs back.
func (r *registry) assign(target string, jobs int, now time.Time) []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	candidates := r.candidates(target, now)
	if len(candidates) == 0 {
		return nil
	}
	assigned := make([]*worker, jobs)
	for i := range assigned {
		best := slices.MinFunc(candidates, (*candidate).compare)
		r.turns++
		best.load, best.given = best.load+1, r.turns
		best.give(target, r.turns)
		assigned[i] = best.worker
	}
	return assigned
}

// candidate is a worker that serves a target, and how loaded it is. Jobs may be many, and workers too: they
// are looked at once, not for each job.
type candidate struct {
	*worker
	load  int
	given uint64
}

func (c *candidate) compare(other *candidate) int {
	return cmp.Or(cmp.Compare(c.load, other.load), cmp.Compare(c.given, other.given))
}

// candidates are the workers that serve a target. The lock is held.
func (r *registry) candidates(target string, now time.Time) []*candidate {
	var candidates []*candidate
	for _, w := range r.workers {
		if w.serves(target) {
			load, given := w.load(target, now)
			candidates = append(candidates, &candidate{w, load, given})
		}
	}
	return candidates
}

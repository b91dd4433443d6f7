package master

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	jobnet "jobd/net"
)

// lengthKeeps is for how long the queue length that a worker told is taken for true.
const lengthKeeps = time.Minute

// silentAfter is how long a ping may go unanswered until others are given jobs by hand first.
const silentAfter = 500 * time.Millisecond

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

var (
	errReplaced = errors.New("the worker registered again over a newer connection")
	errOutdated = jobnet.Refusal("a newer connection of this worker is registered")
)

// put registers the worker at the other end of link; when it did so before, its profile is
// replaced. An instance is registered once, over its newest link: the older one, whose worker has
// left it, is closed.
func (r *registry) put(link *jobnet.Link, p *profile) (*worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.sameInstance(link, p); other != nil {
		if other.link.Born().After(link.Born()) {
			return nil, errOutdated
		}
		other.link.Abandon(errReplaced)
		r.drop(other)
	}
	at := slices.IndexFunc(r.workers, func(w *worker) bool { return w.link == link })
	if at < 0 {
		at = len(r.workers)
		r.workers = append(r.workers, &worker{link: link, inFlight: make(map[string]int)})
	}
	r.workers[at].profile.Store(p)
	return r.workers[at], nil
}

// sameInstance is the worker of the profile's instance that is registered over another link; nil
// where there is none. The lock is held.
func (r *registry) sameInstance(link *jobnet.Link, p *profile) *worker {
	at := slices.IndexFunc(r.workers, func(w *worker) bool {
		return p.instance != "" && w.link != link && w.profile.Load().instance == p.instance
	})
	if at < 0 {
		return nil
	}
	return r.workers[at]
}

func (r *registry) remove(w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(w)
}

// drop is remove for callers that hold the lock.
func (r *registry) drop(w *worker) {
	r.workers = slices.DeleteFunc(slices.Clone(r.workers), func(other *worker) bool { return other == w })
}

// all is a snapshot.
func (r *registry) all() []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.workers)
}

// assign gives so many jobs of the target, each to the worker that serves it and is the least
// loaded then, among equals to the one whose turn it is; none where nobody serves it. Those that
// were tried get none, and those that owe an answer only where all do. The caller must have the
// workers take the jobs back.
func (r *registry) assign(target string, jobs int, tried []*worker, now time.Time) []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	candidates := r.candidates(target, tried, now)
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

// candidate is a worker that serves a target, and how loaded it is. Jobs may be many, and workers
// too: they are looked at once, not for each job.
type candidate struct {
	*worker
	silent int // 1 where it owes an answer, else 0
	load   int
	given  uint64
}

func (c *candidate) compare(other *candidate) int {
	return cmp.Or(cmp.Compare(c.silent, other.silent), cmp.Compare(c.load, other.load), cmp.Compare(c.given, other.given))
}

// candidates are the workers that serve a target by its very name, or, where there is none, those
// whose table takes their name for the same. The lock is held.
func (r *registry) candidates(target string, tried []*worker, now time.Time) []*candidate {
	var exact, like []*candidate
	for _, w := range r.workers {
		p := w.profile.Load()
		if slices.Contains(tried, w) || !p.serves(target) {
			continue
		}
		c := &candidate{worker: w}
		c.load, c.given = w.load(target, now)
		if w.link.Silence() > silentAfter {
			c.silent = 1
		}
		if p.exact[target] {
			exact = append(exact, c)
		} else {
			like = append(like, c)
		}
	}
	if exact == nil {
		return like
	}
	return exact
}

package master

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	jobnet "jobd/net"
)

// lengthKeeps is for how long the queue length that a worker told is taken for true.
const lengthKeeps = time.Minute

// worker is one registered worker. It is known by its link.
type worker struct {
	link    *jobnet.Link
	profile atomic.Pointer[profile]

	polls pollQueue
	pace  pace // of its registrations

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

// give counts jobs as being with the worker; turn is the registry's count.
func (w *worker) give(target string, jobs int, turn uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight[target] += jobs
	w.given = turn
}

// takeBack ends what give began.
func (w *worker) takeBack(target string, jobs int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inFlight[target] -= jobs; w.inFlight[target] <= 0 {
		delete(w.inFlight, target)
	}
}

// noteLengths remembers the lengths of the worker's queues, by target; of those that it registered.
func (w *worker) noteLengths(lengths map[string]int, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = now
	w.others = make(map[string]int)
	served := w.profile.Load().exact
	for target, length := range lengths {
		if served[target] {
			w.others[target] = max(0, length-w.inFlight[target])
		}
	}
}

// registry knows the workers, in the order in which they registered. It is safe for concurrent use.
type registry struct {
	mu         sync.Mutex
	workers    []*worker
	byLink     map[*jobnet.Link]*worker
	byInstance map[string]*worker
	bytes      int // of all profiles

	ended atomic.Uint64 // registrations that are over

	assigning sync.Mutex // guards turns; held while jobs are assigned, so that each assignment sees the others
	turns     uint64     // jobs given so far
}

var (
	errReplaced = errors.New("the worker registered again over a newer connection")
	errOutdated = jobnet.Refusal("a newer connection of this worker is registered")
)

// put registers the worker at the other end of link; when it did so before, its profile is
// replaced, which is given as former. An instance is registered once, over its newest link: the
// older one, whose worker has left it, is closed.
func (r *registry) put(link *jobnet.Link, p *profile) (w *worker, former *profile, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byLink == nil {
		r.byLink, r.byInstance = make(map[*jobnet.Link]*worker), make(map[string]*worker)
	}
	if other := r.byInstance[p.instance]; other != nil && other.link != link {
		if other.link.Born().After(link.Born()) {
			return nil, nil, errOutdated
		}
		other.link.Abandon(errReplaced)
		r.drop(other)
	}
	if w = r.byLink[link]; w != nil {
		former = w.profile.Load()
	}
	if err := r.fits(p, former); err != nil {
		return nil, nil, err
	}
	if w == nil {
		w = &worker{link: link, inFlight: make(map[string]int)}
		r.workers = append(r.workers, w)
		r.byLink[link] = w
	}
	r.forget(former)
	w.profile.Store(p)
	r.bytes += p.cost()
	if p.instance != "" {
		r.byInstance[p.instance] = w
	}
	return w, former, nil
}

// fits tells whether there is room for a worker's profile, or for one in the place of its former
// one. Callers must hold mu.
func (r *registry) fits(p, former *profile) error {
	bytes := r.bytes + p.cost()
	if former != nil {
		bytes -= former.cost()
	} else if len(r.workers) >= mostWorkers {
		return jobnet.Refusef("too many workers: at most %d may be registered", mostWorkers).With(jobnet.CodeLimit)
	}
	if bytes > mostProfileBytes {
		return jobnet.Refusef("too many targets of all workers: they may take at most %d bytes, of which this worker's take %d",
			mostProfileBytes, p.cost()).With(jobnet.CodeLimit)
	}
	return nil
}

// forget ends what a profile takes. Callers must hold mu.
func (r *registry) forget(p *profile) {
	if p != nil {
		r.bytes -= p.cost()
		delete(r.byInstance, p.instance)
	}
}

// over is the worker that is registered over a link; nil where there is none.
func (r *registry) over(link *jobnet.Link) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byLink[link]
}

func (r *registry) remove(w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(w)
}

// drop is remove for callers that hold the lock.
func (r *registry) drop(w *worker) {
	if r.byLink[w.link] != w {
		return
	}
	r.ended.Add(1)
	delete(r.byLink, w.link)
	r.forget(w.profile.Load())
	r.workers = slices.DeleteFunc(slices.Clone(r.workers), func(other *worker) bool { return other == w })
}

// all is a snapshot.
func (r *registry) all() []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.workers)
}

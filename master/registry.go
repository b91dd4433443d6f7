package master

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
)

// lengthKeeps is for how long the queue length that a worker told is taken for true.
const lengthKeeps = time.Minute

// worker is one registered worker. It is known by its link.
type worker struct {
	link     *jobnet.Link
	profile  atomic.Pointer[profile]
	attended bool // its link is kept alive; only Run's

	polls   gathering  // poked names, for which it must poll
	polling sync.Mutex // held while the master has it poll

	// Guarded by the registry's lock.
	inFlight map[string]int // manual jobs that we gave it and that are not answered, by target
	others   map[string]int // what else was in its queues when it last told their lengths, by target
	told     time.Time      // when that was
	given    uint64         // the registry's count when it was last given a job
}

func (w *worker) name() string { return w.profile.Load().name }

// load is how many jobs of a target are thought to be with the worker. Callers must hold the
// registry's lock.
func (w *worker) load(target string, now time.Time) int {
	if now.Sub(w.told) < lengthKeeps {
		return w.inFlight[target] + w.others[target]
	}
	return w.inFlight[target]
}

// takeBack ends what assign began.
func (r *registry) takeBack(w *worker, jobs []job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range jobs {
		if w.inFlight[j.Target]--; w.inFlight[j.Target] <= 0 {
			delete(w.inFlight, j.Target)
		}
	}
}

// noteStatus learns the lengths of a worker's queues from its status, of targets that it registered;
// from a status that can't be understood, nothing.
func (r *registry) noteStatus(w *worker, answer []byte, now time.Time) {
	var status struct {
		Targets map[string]struct{ Length int }
	}
	if len(answer) > statusBytes || json.Unmarshal(answer, &status) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.told, w.others = now, make(map[string]int)
	served := w.profile.Load()
	for target, queue := range status.Targets {
		if served.serves(target) {
			w.others[target] = max(0, queue.Length-w.inFlight[target])
		}
	}
}

// statusBytes is how long a status may be from which something is learnt: that of a worker with
// mostTargets is shorter.
const statusBytes = 2 << 20

// registry knows the workers, in the order in which they registered. It is safe for concurrent use.
type registry struct {
	mu         sync.Mutex
	workers    []*worker
	byLink     map[*jobnet.Link]*worker
	byInstance map[string]*worker
	targets    int // of all workers
	missed     missed
	turns      uint64 // jobs given so far

	ended atomic.Uint64 // registrations that are over
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
	r.missed.back(p.name)
	w.profile.Store(p)
	r.targets += len(p.targets)
	if p.instance != "" {
		r.byInstance[p.instance] = w
	}
	return w, former, nil
}

// fits tells whether there is room for a worker's profile, or for one in the place of its former
// one. Callers must hold mu.
func (r *registry) fits(p, former *profile) error {
	targets := r.targets + len(p.targets)
	if former != nil {
		targets -= len(former.targets)
	} else if len(r.workers) >= mostWorkers {
		return jobnet.Refusef("too many workers: at most %d may be registered", mostWorkers).With(jobnet.CodeLimit)
	}
	if targets > mostTargetsOfAll {
		return jobnet.Refusef("too many targets of all workers: at most %d are allowed, and this worker has %d", mostTargetsOfAll, len(p.targets)).
			With(jobnet.CodeLimit)
	}
	return nil
}

// forget takes a profile out of the count of targets and out of byInstance. Callers must hold mu.
func (r *registry) forget(p *profile) {
	if p != nil {
		r.targets -= len(p.targets)
		delete(r.byInstance, p.instance)
	}
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
	same := func(other *worker) bool { return other.name() == w.name() }
	if !w.profile.Load().leaving && !slices.ContainsFunc(r.workers, same) {
		r.missed.add(w, time.Now())
	}
}

// all is a snapshot.
func (r *registry) all() []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.workers)
}

// visible are the workers that exist for somebody: those that serve a target that it has.
func (m *Master) visible(who *principal.Session) []*worker {
	workers := m.registry.all()
	if who.All() {
		return workers
	}
	return slices.DeleteFunc(workers, func(w *worker) bool { return len(reached(who, w.profile.Load().targets)) == 0 })
}

// reached are those of some targets that somebody has.
func reached(who *principal.Session, targets []string) []string {
	if who.All() {
		return targets
	}
	return slices.DeleteFunc(slices.Clone(targets), func(target string) bool { return !who.Targets.Reach(target) })
}

// register answers register-worker.
func (m *Master) register(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	if len(request.Data) > registrationBytes {
		return nil, jobnet.Refusef("the registration is too long: at most %d bytes are allowed", registrationBytes).With(jobnet.CodeLimit)
	}
	r, err := api.Register.Read(request.From, request.Fields())
	if err != nil {
		return nil, err
	}
	if line := request.From; line.Scope == principal.Worker && line.Name != r.Name {
		return nil, jobnet.Refusef("%s may register under its own name only, not as %s: rename the worker, or give it the token of its own line", line.Name, jobnet.Excerpt(r.Name)).
			With(jobnet.CodeForbidden)
	}
	if name := request.From.Name; name != "" && r.Instance != "" { // others may know it: it is one of this principal's
		r.Instance = name + " " + r.Instance
	}
	p := newProfile(r)
	p.by = request.From.By()
	w, former, err := m.registry.put(link, p)
	if err != nil {
		return nil, err
	}
	if former != nil && p.leaving {
		m.say(slog.LevelInfo, link, "worker stops", "worker", w.name())
		return api.Done{}, nil
	}
	if former == nil || !former.equal(p) {
		m.say(slog.LevelInfo, link, "worker registered", "worker", p.name, "targets", listed(p.targets))
		m.config.Recorder.Registered(p.name, p.targets, p.by)
	}
	select {
	case m.registered <- w:
	case <-m.ended:
		m.registry.remove(w)
		return nil, jobnet.Refusal("shutting down").With(jobnet.CodeStopping)
	case <-ctx.Done():
		m.registry.remove(w)
		return nil, ctx.Err()
	}
	return api.Done{}, nil
}

// profile is what a worker registered with. It never changes; a new registration makes a new one.
type profile struct {
	name     string
	targets  []string // in the order given, each once
	instance string   // tells the worker from all others, whatever their names; "" where it did not say
	askers   bool     // it knows the field by of requests
	leaving  bool     // it stops in order: nobody misses it once its link has ended
	by       string   // who registered

	place map[string]int // where in targets a name is
}

func newProfile(r api.Registration) *profile {
	p := &profile{name: r.Name, targets: unique(r.Targets), instance: r.Instance, leaving: r.Leaving, askers: r.Askers}
	p.place = make(map[string]int, len(p.targets))
	for i, target := range p.targets {
		p.place[target] = i
	}
	return p
}

// serves tells whether a target of this very name is among the worker's.
func (p *profile) serves(name string) bool {
	_, does := p.place[name]
	return does
}

// equal tells whether two workers registered as the same.
func (p *profile) equal(other *profile) bool {
	return p.name == other.name && p.instance == other.instance && slices.Equal(p.targets, other.targets)
}

// match gives the targets that the worker and a selection both have, in the worker's order. It goes
// through the shorter of the two: a worker that comes back is matched with all pokes that are owed, and one
// poke with every worker.
func (p *profile) match(s selection) (targets []string) {
	if len(p.targets) < len(s) {
		return slices.DeleteFunc(slices.Clone(p.targets), func(name string) bool { return !s[name] })
	}
	for name := range s {
		if p.serves(name) {
			targets = append(targets, name)
		}
	}
	slices.SortFunc(targets, func(a, b string) int { return cmp.Compare(p.place[a], p.place[b]) })
	return targets
}

// selection is a list of targets to look names up in.
type selection map[string]bool

func selectionOf(targets []string) selection {
	s := make(selection, len(targets))
	for _, target := range targets {
		s[target] = true
	}
	return s
}

// unique is a list without its repetitions.
func unique(list []string) (once []string) {
	seen := make(map[string]bool, len(list))
	for _, name := range list {
		if !seen[name] {
			seen[name] = true
			once = append(once, name)
		}
	}
	return once
}

package request

import (
	"crypto/x509"
	"maps"
	"slices"
	"sync"

	jobexec "jobd/exec"
)

// Config is what a Requester needs.
type Config struct {
	// OnStanding is told how the service of a target stands, whenever that may have changed, and with
	// each start that is refused because it is unable, before the job has ended. Until the first call
	// it counts as able. Calls come from any goroutine, one after the other; they may call the
	// Requester's methods. nil: nobody listens.
	OnStanding func(jobexec.PoolStanding)

	roots *x509.CertPool // authorities that may sign certificates; nil: those that the system trusts
}

// Requester runs jobs that are requests to services. It implements jobexec.Requester.
type Requester struct {
	config Config

	mu       sync.Mutex // of services; held while a service's own is taken, never the other way round
	services map[string]*service

	telling sync.Mutex // held while OnStanding is told, so that the newest is told last
}

// New makes a Requester that knows of no service.
func New(c Config) *Requester {
	return &Requester{config: c, services: map[string]*service{}}
}

// Start implements jobexec.Requester.
func (r *Requester) Start(spec jobexec.Spec) (jobexec.Process, error) {
	p := newProcess(spec)
	go p.run(r.serviceOf(spec))
	return p, nil
}

// serviceOf is the service that a start means. A start that comes while services are replaced may mean
// one that is not the target's any more, or not yet: it has one for itself.
func (r *Requester) serviceOf(spec jobexec.Spec) *service {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.services[spec.Target]; s != nil && s.of == spec.Service {
		return s
	}
	s := r.newService(spec.Target, spec.Service)
	s.close()
	return s
}

// SetServices implements jobexec.Requester. A service that is new is asked for a connection at once,
// to learn whether it can take jobs before one is claimed. Requests that are under way go on.
func (r *Requester) SetServices(services map[string]jobexec.Service) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for target, s := range r.services {
		if of, stays := services[target]; !stays || of != s.of {
			s.close()
			delete(r.services, target)
		}
	}
	for target, of := range services {
		if r.services[target] != nil {
			continue
		}
		s := r.newService(target, of)
		r.services[target] = s
		s.redialing = true
		go s.redial(0)
	}
}

// newService makes what speaks to a service.
func (r *Requester) newService(target string, of jobexec.Service) *service {
	if of.Mode == jobexec.ModeHTTP {
		return newService(target, of, newHTTP(of, r.config.roots), r.report)
	}
	return newService(target, of, newFastCGI(of), r.report)
}

// Standings tell how the services stand, in the order of their targets.
func (r *Requester) Standings() []jobexec.PoolStanding {
	r.mu.Lock()
	defer r.mu.Unlock()
	standings := make([]jobexec.PoolStanding, 0, len(r.services))
	for _, target := range slices.Sorted(maps.Keys(r.services)) {
		standings = append(standings, r.services[target].standing())
	}
	return standings
}

// report tells how the service of a target stands now.
func (r *Requester) report(target string) {
	r.telling.Lock()
	defer r.telling.Unlock()
	r.mu.Lock()
	s := r.services[target]
	r.mu.Unlock()
	if s != nil && r.config.OnStanding != nil {
		r.config.OnStanding(s.standing())
	}
}

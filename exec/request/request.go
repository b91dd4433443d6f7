package request

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"sync"

	jobexec "jobd/exec"
)

// Config is what a Requester needs.
type Config struct {
	// OnStanding is told how the service of a target stands: when that is known for the first time,
	// whenever it has become unable to take jobs, for another reason than before, or able again, and
	// with each start that is refused because it is unable, before the job has ended. Until then it is
	// to be taken for able. Calls come from any goroutine, one after the other; they may call the
	// Requester's methods. nil: nobody listens.
	OnStanding func(jobexec.PoolStanding)

	roots *x509.CertPool // who may sign certificates; nil: whom the system trusts
}

// Requester runs jobs that are requests to services. It implements jobexec.Requester.
type Requester struct {
	config Config

	mu       sync.Mutex // of services; held while a service's own is taken, never the other way round
	services map[string]*service

	telling sync.Mutex          // held while OnStanding is told, so that the newest is told last
	told    map[string]standing // by target, what OnStanding knows
}

// standing is how a service stands.
type standing struct {
	of     *service
	unable string // why; "": it is able
}

// New makes a Requester that knows of no service.
func New(c Config) *Requester {
	return &Requester{config: c, services: map[string]*service{}, told: map[string]standing{}}
}

// Start implements jobexec.Requester.
func (r *Requester) Start(spec jobexec.Spec) (jobexec.Process, error) {
	s, err := r.serviceOf(spec)
	if err != nil {
		return nil, err
	}
	p := newProcess(spec)
	go p.run(s)
	return p, nil
}

// serviceOf is the service that a start means. A start that comes while services are replaced may mean
// one that is not the target's any more, or not yet: it has one for itself.
func (r *Requester) serviceOf(spec jobexec.Spec) (*service, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.services[spec.Target]; s != nil && s.of == spec.Service {
		return s, nil
	}
	s, err := r.newService(spec.Target, spec.Service)
	if err != nil {
		return nil, &jobexec.NotStartedError{Why: err.Error()}
	}
	s.close()
	return s, nil
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
		s, err := r.newService(target, of)
		if err != nil {
			s = r.unfit(target, of, err)
		}
		r.services[target] = s
		s.redialing = true
		go s.redial(0)
	}
}

// newService makes what speaks to a service.
func (r *Requester) newService(target string, of jobexec.Service) (*service, error) {
	switch of.Mode {
	case jobexec.ModeHTTP:
		p, err := newHTTP(of, r.config.roots)
		if err != nil {
			return nil, err
		}
		return newService(target, of, p, r.report), nil
	case jobexec.ModeFastCGI:
		p, err := newFastCGI(of)
		if err != nil {
			return nil, err
		}
		return newService(target, of, p, r.report), nil
	default:
		return nil, fmt.Errorf("launcher_mode %q is no request to a service", of.Mode)
	}
}

// unfit is a service that nothing can be sent to.
func (r *Requester) unfit(target string, of jobexec.Service, why error) *service {
	return newService(target, of, nowhere{why}, r.report)
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

// report tells how the service of a target stands now, if that is not known yet, or again.
func (r *Requester) report(target string, again bool) {
	r.telling.Lock()
	defer r.telling.Unlock()
	r.mu.Lock()
	s := r.services[target]
	if s == nil {
		delete(r.told, target)
		r.mu.Unlock()
		return
	}
	now := s.standing()
	r.mu.Unlock()
	if known, is := r.told[target]; is && !again && known == (standing{s, now.Unready}) {
		return
	}
	r.told[target] = standing{s, now.Unready}
	if r.config.OnStanding != nil {
		r.config.OnStanding(now)
	}
}

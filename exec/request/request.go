package request

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/journal"
)

// The executor: the services of the targets, and a job from its connection to its outcome.

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

// process is a job that is a request. One goroutine, run, does all of it.
type process struct {
	spec    jobexec.Spec
	begun   chan struct{} // closed when started is set, or the process has ended
	proceed chan struct{} // closed when the request may be sent
	ended   chan struct{} // closed when done and err are set
	once    sync.Once     // of proceed

	ctx    context.Context // ends when the job is cancelled, or taken back
	cancel context.CancelCauseFunc

	beginning sync.Mutex // of begun: one that has begun can't be taken back
	started   journal.Started
	done      journal.Done
	err       error
}

func newProcess(spec jobexec.Spec) *process {
	p := &process{
		spec: spec, begun: make(chan struct{}), proceed: make(chan struct{}), ended: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p
}

// run connects to the service, waits until it may go on, and sends the request.
func (p *process) run(s *service) {
	defer p.cancel(nil)
	c, err := s.take(p.ctx)
	if err == nil && p.begin(c) {
		p.tell(false)
		select {
		case <-p.proceed:
			c, err = s.renew(p.ctx, c)
		case <-p.ctx.Done():
		}
	}
	if err != nil {
		p.end(p.unsent(err))
		return
	}
	if err := p.ctx.Err(); err != nil { // whether it may be sent as well or not
		s.put(c, true)
		p.end(p.unsent(err))
		return
	}
	p.end(p.ask(s, c))
}

// begin notes that the connection is there. It is false where the job was cancelled or taken back.
func (p *process) begin(c *connection) bool {
	p.beginning.Lock()
	defer p.beginning.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.started = journal.Started{Address: c.address}
	close(p.begun)
	return true
}

// unsent is the outcome of a request that was never sent, for a reason. One that was cancelled has ended
// by that.
func (p *process) unsent(err error) (journal.Done, error) {
	var cancelled *cancelledError
	cause := context.Cause(p.ctx)
	switch {
	case errors.As(cause, &cancelled):
		return journal.Done{
			Result: "fail", Signal: cancelled.name(), Reason: "it was cancelled before its request was sent",
		}, nil
	case errors.Is(cause, errWithdrawn):
		return journal.Done{}, &jobexec.NotStartedError{Why: errWithdrawn.Error(), Short: true}
	}
	return journal.Done{}, err
}

var errWithdrawn = errors.New("it was taken back while it waited for its connection")

// Withdraw takes the request back if it waits still for its connection: it ends with a
// *jobexec.NotStartedError then. It does not wait for that.
func (p *process) Withdraw() {
	p.beginning.Lock()
	defer p.beginning.Unlock()
	if !jobexec.IsClosed(p.begun) {
		p.cancel(errWithdrawn)
	}
}

// ask sends the request, and waits for the answer for as long as the job may take.
func (p *process) ask(s *service, c *connection) (journal.Done, error) {
	ctx, sent := p.ctx, time.Now()
	if p.spec.Timeout > 0 {
		late := fmt.Errorf("the service did not answer within its timeout of %s", p.spec.Timeout)
		limited, stop := context.WithTimeoutCause(ctx, p.spec.Timeout, late)
		defer stop()
		ctx = limited
	}
	interrupted := context.AfterFunc(ctx, c.interrupt)
	a := s.speaks.ask(c, &p.spec)
	a.done.Elapsed = max(1, time.Since(sent).Microseconds())
	s.put(c, interrupted() && a.err == nil && a.reusable)
	if a.err == nil {
		return a.done, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		a.err = cause
	}
	return a.done, fmt.Errorf("%w: %w", a.err, jobexec.ErrOutcomeUnknown)
}

// end notes how the job has ended.
func (p *process) end(done journal.Done, err error) {
	if text := &done.Stderr; done.Note != "" && len(text.Kept) > 0 && int64(len(text.Kept)) == text.Size && !bytes.HasSuffix(text.Kept, []byte("\n")) {
		text.Kept, text.Size = append(text.Kept, '\n'), text.Size+1 // the note gets a line of its own
	}
	p.done, p.err = done, err
	if !jobexec.IsClosed(p.begun) {
		close(p.begun)
	}
	close(p.ended)
	p.tell(true)
}

func (p *process) tell(ended bool) {
	if p.spec.Tell != nil {
		p.spec.Tell(jobexec.News{Job: p.spec.Job, Token: p.spec.Token, Attempt: p.spec.Attempt, Ended: ended})
	}
}

// Begun implements jobexec.Process: the connection is there.
func (p *process) Begun() <-chan struct{} { return p.begun }

// Started implements jobexec.Process.
func (p *process) Started() journal.Started { return p.started }

// Proceed implements jobexec.Held.
func (p *process) Proceed() { p.once.Do(func() { close(p.proceed) }) }

// Ended implements jobexec.Process.
func (p *process) Ended() <-chan struct{} { return p.ended }

// Outcome implements jobexec.Process.
func (p *process) Outcome() (journal.Done, error) { return p.done, p.err }

// Signal implements jobexec.Process. A request can be cancelled, and nothing else: what the service
// does about it then nobody knows.
func (p *process) Signal(signo int) error {
	if jobexec.IsClosed(p.ended) {
		return os.ErrProcessDone
	}
	switch unix.Signal(signo) {
	case 0:
		return nil
	case unix.SIGTERM, unix.SIGINT, unix.SIGKILL:
		p.cancel(&cancelledError{unix.Signal(signo)})
		return nil
	}
	return fmt.Errorf("%w: a request to a service takes SIGTERM, SIGINT and SIGKILL, which cancel it", unix.EINVAL)
}

// cancelledError is why a request has ended that got a signal.
type cancelledError struct{ signal unix.Signal }

func (e *cancelledError) name() string { return unix.SignalName(e.signal) }

// Error implements error.
func (e *cancelledError) Error() string {
	return "it was cancelled by " + e.name() + " while the service had its request"
}

package exec_test

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/journal"
)

// pools notes which pools the worker wants. The test itself says which can't get ready.
type pools struct {
	mu       sync.Mutex
	wanted   [][]jobexec.Pool // each time that it was said
	recycled [][]string
	stand    []jobexec.PoolStanding
}

func (p *pools) SetPools(wanted []jobexec.Pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = append(p.wanted, slices.Clone(wanted))
}

func (p *pools) Recycle(targets []string, _ string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recycled = append(p.recycled, targets)
	return nil
}

func (p *pools) Standings() []jobexec.PoolStanding { return p.stand }

// slots gives the slots of the pools that were wanted last, by target.
func (p *pools) slots() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	slots := map[string]int{}
	for _, pool := range p.wanted[len(p.wanted)-1] {
		slots[pool.Target] = pool.Slots
	}
	return slots
}

// requester makes requests whose connection, and whose answer, the test gives.
type requester struct {
	mu       sync.Mutex
	asked    chan *request
	services map[string]jobexec.Service
}

func newRequester() *requester { return &requester{asked: make(chan *request, 100)} }

func (r *requester) SetServices(services map[string]jobexec.Service) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.services = services
}

func (r *requester) Standings() []jobexec.PoolStanding { return nil }

func (r *requester) Start(spec jobexec.Spec) (jobexec.Process, error) {
	p := &request{spec: spec, begun: make(chan struct{}), sent: make(chan struct{}), ended: make(chan struct{}), signals: make(chan int, 10)}
	r.asked <- p
	return p, nil
}

// request is a job that is a request.
type request struct {
	spec               jobexec.Spec
	mu                 sync.Mutex
	begun, sent, ended chan struct{}
	signals            chan int
	connected          atomic.Bool
	done               journal.Done
	err                error
	behind             func() // is called when it was taken back; nil: nothing is
}

const serviceAddress = "http 127.0.0.1:80"

// unsentReason is why a request has ended that got a signal before it was sent.
const unsentReason = "it was cancelled before its request was sent"

func (p *request) Begun() <-chan struct{}         { return p.begun }
func (p *request) Ended() <-chan struct{}         { return p.ended }
func (p *request) Outcome() (journal.Done, error) { return p.done, p.err }
func (p *request) Proceed()                       { close(p.sent) }

// Started says where it was to be sent, once it had its connection.
func (p *request) Started() (s journal.Started) {
	if p.connected.Load() {
		s.Address = serviceAddress
	}
	return s
}

func (p *request) tell(ended bool) {
	p.spec.Tell(jobexec.News{Job: p.spec.Job, Token: p.spec.Token, Attempt: p.spec.Attempt, Ended: ended})
}

func (p *request) Signal(signo int) error {
	if closed(p.ended) {
		return os.ErrProcessDone
	}
	p.signals <- signo
	if !closed(p.begun) {
		p.ends(journal.Done{Result: "fail", Signal: unix.SignalName(unix.Signal(signo)), Reason: unsentReason}, nil)
	}
	return nil
}

// Withdraw takes it back where it has no connection.
func (p *request) Withdraw() {
	if closed(p.begun) {
		return
	}
	p.ends(journal.Done{}, &jobexec.NotStartedError{Why: "it was taken back", Short: true})
	if p.behind != nil {
		p.behind()
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// connects says that the connection is there.
func (p *request) connects() {
	p.connected.Store(true)
	close(p.begun)
	p.tell(false)
}

// ends gives the outcome.
func (p *request) ends(done journal.Done, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if closed(p.ended) {
		return
	}
	p.done, p.err = done, err
	if !closed(p.begun) {
		close(p.begun)
	}
	close(p.ended)
	p.tell(true)
}

// answered is an answer that says ok, or what else it says.
func answered(result string) journal.Done {
	code := 0
	return journal.Done{Result: result, Code: &code}
}

// asks is the next request that the worker makes.
func (r *requester) asks(t *testing.T) *request {
	t.Helper()
	select {
	case p := <-r.asked:
		t.Cleanup(func() { p.ends(answered("ok"), nil) })
		return p
	case <-time.After(hung):
		t.Fatalf("no request was made within %s", hung)
		return nil
	}
}

// sends waits until a request may be sent.
func (p *request) sends(t *testing.T) {
	t.Helper()
	select {
	case <-p.sent:
	case <-time.After(hung):
		t.Fatalf("the request of job %d may not be sent within %s", p.spec.Job, hung)
	}
}

package runner

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// process is a job that the runner was asked for. One goroutine at a time changes its state: under
// the lock of the link that has it, or, between two links, the one that moves it from one to the
// other.
type process struct {
	claim                         // which start it is
	withdraw func()               // takes it back while it waits; nil: it does not wait
	tell     func(jobexec.News)   // nil where nobody listens
	shares   bool                 // its process was there before, so that since says when it began
	since    atomic.Int64         // the uptime at which the job began; 0: when its process did
	link     *link                // to the runner that was asked
	heir     atomic.Pointer[heir] // as what it goes on, when that link is lost

	asked   time.Time     // when the runner was told to start it; zero: by a former worker
	begun   chan struct{} // closed when started is set, or the process has ended
	ended   chan struct{} // closed when done and err are set
	started journal.Started
	done    journal.Done
	err     error
	exited  bool // done is known, but for the output, which is with the runner
}

// heir is the same process as a new link knows it, or as one whose runner is gone.
type heir struct {
	jobexec.Process
	adopted func() bool
}

// newProcess makes a process that a runner was asked for.
func newProcess(of claim, l *link) *process {
	return &process{claim: of, link: l, begun: make(chan struct{}), ended: make(chan struct{})}
}

// goOnAs makes all news of the heir this process's.
func (p *process) goOnAs(h heir) {
	p.heir.Store(&h)
	go func() {
		var n notices
		<-h.Begun()
		if !isClosed(h.Ended()) {
			p.begin(h.Started(), &n)
			n.make()
		}
		<-h.Ended()
		done, err := h.Outcome()
		p.exit(h.Started(), done)
		p.end(err, &n)
		n.make()
	}()
}

// notices are news for the worker, which is told once no lock is held.
type notices []notice

type notice struct {
	of    *process
	ended bool
}

func (n *notices) add(p *process, ended bool) {
	if p.tell != nil {
		*n = append(*n, notice{p, ended})
	}
}

// make tells the worker.
func (n *notices) make() {
	for _, notice := range *n {
		id := notice.of.id
		notice.of.tell(jobexec.News{Job: id.Job, Token: id.Token, Attempt: id.Attempt, Ended: notice.ended})
	}
	clear(*n)
	*n = (*n)[:0]
}

// begin notes that the process runs.
func (p *process) begin(started journal.Started, n *notices) {
	if !isClosed(p.begun) {
		p.started = started
		if p.shares {
			p.since.Store(proc.Uptime())
		}
		close(p.begun)
		n.add(p, false)
	}
}

// exit notes how the process ended. Which process it was may be known only by that.
func (p *process) exit(started journal.Started, done journal.Done) {
	p.done, p.exited = done, true
	if !isClosed(p.begun) {
		p.started = started
	}
}

// end notes that nothing more will be known: done is set, or err says why it is not. It may be the
// runner that says that nobody can tell.
func (p *process) end(err error, n *notices) {
	if err == nil && p.done.Result == wire.ResultLost {
		err = fmt.Errorf("%s: %w", p.done.Reason, jobexec.ErrOutcomeUnknown)
		p.done.Result, p.done.Reason = "", ""
	}
	p.err = err
	if !isClosed(p.begun) {
		close(p.begun)
	}
	close(p.ended)
	n.add(p, true)
}

// orphan goes on with a process whose runner is gone. Of a start that the runner had not answered
// nobody knows whether it happened.
func (p *process) orphan(c *connector, n *notices) {
	if p.exited { // only its output is lost
		p.done.Reason = "its output was lost with the runner"
		p.end(nil, n)
		return
	}
	if !isClosed(p.begun) {
		p.end(errLost, n)
		return
	}
	since := p.began()
	if s, alive := c.adopt(p.id, p.started, since, p.limit.From(since)); alive {
		p.goOnAs(heir{s, s.Adopted})
		return
	}
	p.done.Stdout, p.done.Stderr = c.read(p.id, p.started)
	p.end(errLost, n)
}

// shares tells whether a job has a process that was there before it.
func shares(mode jobexec.Mode) bool { return mode == jobexec.ModePool || mode == jobexec.ModeSpare }

// began is the uptime at which the job began, which is later than its process where that was there
// before.
func (p *process) began() int64 {
	if since := p.since.Load(); since != 0 {
		return since
	}
	return began(p.started)
}

// errLost is the outcome of a process that ended without its runner.
var errLost = fmt.Errorf("the runner was lost: %w", jobexec.ErrOutcomeUnknown)

// Begun implements jobexec.Process.
func (p *process) Begun() <-chan struct{} { return p.begun }

// Started implements jobexec.Process.
func (p *process) Started() journal.Started { return p.started }

// Ended implements jobexec.Process.
func (p *process) Ended() <-chan struct{} { return p.ended }

// Outcome implements jobexec.Process.
func (p *process) Outcome() (journal.Done, error) { return p.done, p.err }

// Signal implements jobexec.Process. It may be called before the process has begun: the runner does
// one request after the other.
func (p *process) Signal(signo int) error {
	if isClosed(p.ended) {
		return os.ErrProcessDone
	}
	if h := p.heir.Load(); h != nil {
		return h.Signal(signo)
	}
	return p.link.signal(p.id, signo)
}

// Adopted tells whether the process goes on without its runner.
func (p *process) Adopted() bool {
	h := p.heir.Load()
	return h != nil && h.adopted()
}

// Withdraw takes the start back if it still waits for a pool process: it ends with a *NotStartedError
// then. It does not wait for that.
func (p *process) Withdraw() {
	if p.withdraw != nil && !isClosed(p.begun) {
		p.withdraw()
	}
}

// refusal is why a start never happened, as the runner says.
func refusal(m *wire.Message) error {
	if m.Class == wire.AlreadyKnown {
		return errors.New(m.Text)
	}
	return &jobexec.NotStartedError{Why: m.Text, Short: m.Class == wire.Short}
}

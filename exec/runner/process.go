package runner

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// process is a job that the runner was asked for. One goroutine at a time changes its state: under
// the lock of the link that has it, or, once the runner is gone, the one that watches its process.
type process struct {
	claim                        // which start it is
	waits  bool                  // it may have to wait for a pool process
	tell   func(jobexec.News)    // nil where nobody listens
	shares bool                  // its process was there before, so that since says when it began
	since  atomic.Int64          // the uptime at which the job began; 0: it began when its process did
	link   atomic.Pointer[link]  // to its runner; a lost one, where the worker has no other yet
	stray  atomic.Pointer[stray] // what there is of it without its runner

	asked   time.Time     // when the runner was told to start it; zero: by a former worker
	begun   chan struct{} // closed when started is set, or the process has ended
	ended   chan struct{} // closed when done and err are set
	started journal.Started
	done    journal.Done
	err     error
	exited  bool // done is known, but for the output, which is with the runner
}

// newProcess makes a process that a runner was asked for.
func newProcess(of claim) *process {
	return &process{claim: of, begun: make(chan struct{}), ended: make(chan struct{})}
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
	if !jobexec.IsClosed(p.begun) {
		p.started = started
		if p.shares {
			p.since.Store(proc.Uptime())
		}
		close(p.begun)
		n.add(p, false)
	}
}

// exit notes how the process ended. The runner's message of the end may be the first that names the
// process.
func (p *process) exit(started journal.Started, done journal.Done) {
	p.done, p.exited = done, true
	if !jobexec.IsClosed(p.begun) {
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
	if !jobexec.IsClosed(p.begun) {
		close(p.begun)
	}
	close(p.ended)
	n.add(p, true)
}

// orphan goes on with a process whose runner is gone. Of a start that the runner had not answered
// nobody knows whether it happened.
func (p *process) orphan(r *Remote, n *notices) {
	switch {
	case p.exited: // only its output is lost
		p.done.Reason = "its output was lost with the runner"
		p.end(nil, n)
	case !jobexec.IsClosed(p.begun):
		p.end(errLost, n)
	case !p.outlive(r):
		p.end(errLost, n)
	}
}

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
	if jobexec.IsClosed(p.ended) {
		return os.ErrProcessDone
	}
	if s := p.stray.Load(); s != nil {
		return s.send(unix.Signal(signo))
	}
	return p.link.Load().signal(p.id, signo)
}

// Adopted tells whether the process goes on without its runner.
func (p *process) Adopted() bool { return p.stray.Load() != nil }

// Withdraw takes the start back if it still waits for a pool process: it ends with a *NotStartedError
// then. It does not wait for that.
func (p *process) Withdraw() {
	if p.waits && !jobexec.IsClosed(p.begun) {
		p.link.Load().out.Post(wire.Message{Kind: wire.Withdraw, ID: p.id})
	}
}

// refusal is why a start never happened, as the runner says.
func refusal(m *wire.Message) error {
	if m.Class == wire.AlreadyKnown {
		return errors.New(m.Text)
	}
	return &jobexec.NotStartedError{Why: m.Text, Short: m.Class == wire.Short}
}

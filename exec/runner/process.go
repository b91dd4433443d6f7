package runner

import (
	"fmt"
	"os"
	"sync/atomic"

	jobexec "jobd/exec"
	"jobd/journal"
)

// remoteProcess is a job that the runner was asked for. Its state is changed by one at a time: under the lock
// of the link that it is on, or, between two of them, by who takes it from one to the other.
type remoteProcess struct {
	id               id
	onBegun, onEnded func()
	link             atomic.Pointer[link]
	stray            atomic.Pointer[stray] // once its runner is gone

	begun       chan struct{} // closed when started is set, or it has ended
	ended       chan struct{} // closed when done and err are
	started     journal.Started
	done        journal.Done
	err         error
	placeholder bool // nobody has it
	over        bool // done is known, but for the output, which is with the runner
}

func newProcess(l *link, spec jobexec.Spec) *remoteProcess {
	p := &remoteProcess{
		id: id{spec.Job, spec.Attempt}, onBegun: spec.OnBegun, onEnded: spec.OnEnded,
		begun: make(chan struct{}), ended: make(chan struct{}),
	}
	p.link.Store(l)
	return p
}

// news is who is to be told of what happened, once no lock is held.
type news []func()

func (n *news) add(tell func()) {
	if tell != nil {
		*n = append(*n, tell)
	}
}

// tell tells it.
func (n *news) tell() {
	for _, tell := range *n {
		tell()
	}
	clear(*n)
	*n = (*n)[:0]
}

func (p *remoteProcess) begin(started journal.Started, n *news) {
	if !p.hasBegun() {
		p.started = started
		close(p.begun)
		n.add(p.onBegun)
	}
}

func (p *remoteProcess) hasBegun() bool { return closed(p.begun) }

// closed tells whether a channel that carries nothing is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// exit notes how the process ended; started may be known by that alone.
func (p *remoteProcess) exit(started journal.Started, done journal.Done) {
	p.done, p.over = done, true
	if !p.hasBegun() {
		p.started = started
	}
}

// end ends the process; done is set, or err tells why not.
func (p *remoteProcess) end(err error, n *news) {
	p.err = err
	if !p.hasBegun() {
		close(p.begun)
	}
	close(p.ended)
	n.add(p.onEnded)
}

// orphaned goes on with a process whose runner is gone. Whether a start that
// the runner had not answered happened is not known.
func (p *remoteProcess) orphaned(bootID string, n *news) {
	if p.over { // only its output is lost
		p.done.Reason = "its output was lost with the runner"
		p.end(nil, n)
		return
	}
	if s, alive := adopt(p.started, bootID); p.hasBegun() && alive {
		p.stray.Store(s)
		go p.follow(s)
		return
	}
	p.end(fmt.Errorf("the runner was lost: %w", jobexec.ErrOutcomeUnknown), n)
}

// follow ends the process when the stray that it is now does.
func (p *remoteProcess) follow(s *stray) {
	<-s.Ended()
	p.done, _ = s.Outcome()
	var n news
	p.end(fmt.Errorf("the runner was lost: %w", jobexec.ErrOutcomeUnknown), &n)
	n.tell()
}

// Begun implements jobexec.Process.
func (p *remoteProcess) Begun() <-chan struct{} { return p.begun }

// Started implements jobexec.Process.
func (p *remoteProcess) Started() journal.Started { return p.started }

// Ended implements jobexec.Process.
func (p *remoteProcess) Ended() <-chan struct{} { return p.ended }

// Outcome implements jobexec.Process.
func (p *remoteProcess) Outcome() (journal.Done, error) { return p.done, p.err }

// Signal implements jobexec.Process. It may be asked before the process has begun: the runner does one
// thing after the other.
func (p *remoteProcess) Signal(signo int) error {
	if closed(p.ended) {
		return os.ErrProcessDone
	}
	if s := p.stray.Load(); s != nil {
		return s.Signal(signo)
	}
	return p.link.Load().signal(p.id, signo)
}

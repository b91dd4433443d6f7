package runner

import (
	"fmt"
	"os"
	"sync"

	jobexec "jobd/exec"
	"jobd/journal"
)

// remoteProcess is a job that the runner has.
type remoteProcess struct {
	link *link
	id   id

	begun   chan struct{} // closed when started or err is set
	started journal.Started
	err     error

	ended chan struct{} // closed when done is set
	done  journal.Done
	known bool

	mu    sync.Mutex
	stray jobexec.Process // the process itself, once its runner is gone
}

func (p *remoteProcess) begin(started journal.Started, err error) {
	p.started, p.err = started, err
	close(p.begun)
}

func (p *remoteProcess) end(done journal.Done, known bool) {
	p.done, p.known = done, known
	close(p.ended)
}

// orphaned goes on with a process whose runner is gone. Whether a start that
// the runner had not answered happened is not known.
func (p *remoteProcess) orphaned(local *Local) {
	select {
	case <-p.begun:
	default:
		p.begin(journal.Started{}, fmt.Errorf("the runner was lost: %w", jobexec.ErrOutcomeUnknown))
		return
	}
	stray, alive := local.Adopt(p.started)
	if !alive {
		p.end(journal.Done{}, false)
		return
	}
	p.mu.Lock()
	p.stray = stray
	p.mu.Unlock()
	go func() {
		<-stray.Ended()
		p.end(stray.Outcome())
	}()
}

// Started implements jobexec.Process.
func (p *remoteProcess) Started() journal.Started { return p.started }

// Ended implements jobexec.Process.
func (p *remoteProcess) Ended() <-chan struct{} { return p.ended }

// Outcome implements jobexec.Process.
func (p *remoteProcess) Outcome() (journal.Done, bool) { return p.done, p.known }

// Signal implements jobexec.Process.
func (p *remoteProcess) Signal(signo int) error {
	select {
	case <-p.ended:
		return os.ErrProcessDone
	default:
	}
	p.mu.Lock()
	stray := p.stray
	p.mu.Unlock()
	if stray != nil {
		return stray.Signal(signo)
	}
	return p.link.signal(p.id, signo)
}

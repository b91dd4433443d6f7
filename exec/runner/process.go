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

	later   bool          // done came without its output
	fetched chan struct{} // closed when done has it

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
	case <-p.ended: // its output was still to be fetched
		return
	default:
	}
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

// Outcome implements jobexec.Process. Large output is fetched when there is room
// for it; the room is given up when the outcome is forgotten.
func (p *remoteProcess) Outcome() (journal.Done, bool) {
	if !p.later {
		return p.done, p.known
	}
	select {
	case p.link.room <- struct{}{}:
	case <-p.link.lost:
		return p.withoutOutput()
	}
	p.link.occupy(p.id)
	p.link.out.send(message{Kind: kindFetch, ID: p.id})
	select {
	case <-p.fetched:
		return p.done, true
	case <-p.link.lost:
		return p.withoutOutput()
	}
}

// withoutOutput is the outcome of a job whose output went with its runner. Where it was us who left
// the runner, the output is there still, for the next start to fetch: this one has no answer.
func (p *remoteProcess) withoutOutput() (journal.Done, bool) {
	if p.link.left() {
		select {}
	}
	done := p.done
	done.Reason = "its output was lost with the runner"
	return done, true
}

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

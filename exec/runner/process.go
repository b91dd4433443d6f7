package runner

import (
	"fmt"
	"os"

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

	// Once the connection is lost the process goes on as another one: as the same, on a
	// new connection, or as a stray, when its runner is gone. It is nil where it can't.
	passed chan struct{} // closed when next is set
	next   jobexec.Process
}

func (p *remoteProcess) begin(started journal.Started, err error) {
	p.started, p.err = started, err
	close(p.begun)
}

func (p *remoteProcess) end(done journal.Done, known bool) {
	p.done, p.known = done, known
	close(p.ended)
}

func (p *remoteProcess) isBegun() bool {
	select {
	case <-p.begun:
		return true
	default:
		return false
	}
}

// pass goes on with the process on a new connection.
func (p *remoteProcess) pass(next jobexec.Process) {
	if !p.isBegun() {
		p.begin(next.Started(), nil)
	}
	p.follow(next)
}

// orphaned goes on with a process whose runner is gone. Whether a start that
// the runner had not answered happened is not known.
func (p *remoteProcess) orphaned(local *Local) {
	if !p.isBegun() {
		p.begin(journal.Started{}, fmt.Errorf("the runner was lost: %w", jobexec.ErrOutcomeUnknown))
		return
	}
	if stray, alive := local.Adopt(p.started); alive {
		p.follow(stray)
		return
	}
	close(p.passed)
	if !p.later { // else it has ended already, and only its output is lost
		p.end(journal.Done{}, false)
	}
}

// follow ends the process when the one that it goes on as does.
func (p *remoteProcess) follow(next jobexec.Process) {
	p.next = next
	close(p.passed)
	if p.later {
		return
	}
	go func() {
		<-next.Ended()
		p.end(next.Outcome())
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
		return p.elsewhere()
	}
	p.link.occupy(p.id)
	p.link.out.send(message{Kind: kindFetch, ID: p.id})
	select {
	case <-p.fetched:
		return p.done, true
	case <-p.link.lost:
		return p.elsewhere()
	}
}

// elsewhere is the outcome of a job whose output was not fetched when the connection was lost. Where it
// was us who left the runner, the output is there still, for the next start to fetch: this one has no
// answer.
func (p *remoteProcess) elsewhere() (journal.Done, bool) {
	if p.link.left() {
		select {}
	}
	<-p.passed
	if p.next != nil {
		<-p.next.Ended()
		return p.next.Outcome()
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
	case <-p.passed:
		if p.next == nil {
			return os.ErrProcessDone
		}
		return p.next.Signal(signo)
	default:
		return p.link.signal(p.id, signo)
	}
}

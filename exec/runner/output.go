package runner

import (
	"context"
	"errors"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// Forget implements jobexec.Keeper.
func (r *Remote) Forget(job int64, token string, attempt int) {
	r.connecting.Lock() // a runner that is being connected has it, too
	defer r.connecting.Unlock()
	r.newest().forget(wire.ID{Job: job, Token: token, Attempt: attempt})
}

// Adopt implements jobexec.Runner.
func (r *Remote) Adopt(of jobexec.Spec, started journal.Started) (jobexec.Process, bool) {
	p := newProcess(claimOf(&of))
	p.since.Store(beganAt(&of, started))
	p.begin(started, nil)
	if !p.outlive(r) {
		return nil, false
	}
	return p, true
}

// beganAt is the uptime at which a start began that a former worker has asked for. Where its process
// was there before, that was when it was announced, as far as the clock was not set since.
func beganAt(of *jobexec.Spec, process journal.Started) int64 {
	if !of.Mode.Shares() || of.Since.IsZero() {
		return began(process)
	}
	now := proc.Uptime()
	return min(max(now-int64(time.Since(of.Since)), began(process)), now)
}

// Written implements jobexec.Watcher. What a job has written whose runner is gone went with that.
func (r *Remote) Written(ctx context.Context, g jobexec.Glance) (w jobexec.Written, err error) {
	id := wire.ID{Job: g.Job, Token: g.Token, Attempt: g.Attempt}
	if l := r.newest(); l.has(id) {
		m, err := l.ask(ctx, wire.Message{Kind: wire.Peek, ID: id, Peek: &wire.Glance{From: g.From, Most: g.Most}})
		if err == nil {
			return jobexec.Written{jobexec.Part(m.Peek.Parts[0]), jobexec.Part(m.Peek.Parts[1])}, nil
		}
		if !errors.Is(err, errLost) {
			return w, err
		}
	}
	for i, from := range g.From {
		w[i].At = max(from, 0)
	}
	return w, nil
}

// has tells whether the runner has a job that is not known to have ended.
func (l *link) has(id wire.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.processes[id] != nil
}

package runner

import (
	"fmt"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
)

// start asks for a start.
func (l *link) start(spec *jobexec.Spec) (jobexec.Process, error) {
	p := newProcess(claimOf(spec), l)
	p.tell, p.shares = spec.Tell, shares(spec.Mode)
	if !spec.Mode.Kept() { // a process that is kept may have to be loaded first
		p.asked = time.Now()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.alive() || l.owed.leaving {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], jobexec.ErrRunnerChanged)
	}
	if spec.Mode.Kept() && !l.pools {
		return nil, &jobexec.NotStartedError{Why: errOlderRunner, Short: true}
	}
	l.processes[p.id] = p
	if spec.Mode.Kept() {
		id := p.id
		l.owed.add(id)
		p.withdraw = func() { l.post(wire.Message{Kind: wire.Withdraw, ID: id}) }
		l.post(wire.Message{
			Kind: wire.Start, ID: p.id, Argv: spec.Argv[:1], MaxOutput: spec.MaxOutput, Limit: p.limit,
			Pool: spec.Target, Vars: spec.Vars,
		})
		return p, nil
	}
	if !sameSlice(l.env, spec.Env) {
		l.env = spec.Env
		l.post(wire.Message{Kind: wire.Environment, Env: spec.Env})
	}
	l.owed.add(p.id)
	l.post(wire.Message{
		Kind: wire.Start, ID: p.id, Argv: spec.Argv, Dir: spec.Dir, MaxOutput: spec.MaxOutput, Limit: p.limit,
	})
	return p, nil
}

// sameSlice tells whether two environments are one and the same slice: a launcher uses one for all
// its jobs, and it is not sent again for each.
func sameSlice(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

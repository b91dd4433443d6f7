package runner

import (
	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// claim is a start, and for how long it may run.
type claim struct {
	id    wire.ID
	limit wire.Limit
}

func claimOf(spec *jobexec.Spec) claim {
	return claim{
		wire.ID{Job: spec.Job, Token: spec.Token, Attempt: spec.Attempt},
		wire.Limit{Timeout: max(0, spec.Timeout), Kill: max(0, spec.KillAfter)},
	}
}

// Recall implements jobexec.Keeper.
func (r *Remote) Recall(underWay []jobexec.Spec) (recalled []jobexec.Recalled) {
	c := &r.connector
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range underWay {
		of := claimOf(&underWay[i])
		if p := r.recalled[of.id]; p != nil && shares(underWay[i].Mode) {
			p.since.Store(beganAt(&underWay[i], journal.Started{}))
		}
	}
	for _, p := range r.recalled {
		id := p.id
		recalled = append(recalled, jobexec.Recalled{Job: id.Job, Token: id.Token, Attempt: id.Attempt, Process: p})
	}
	return recalled
}

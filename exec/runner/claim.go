package runner

import (
	"errors"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// claim is a start as the worker knows it. Runners of older versions know of no tokens and limits,
// and those of this one of none that a worker of an older version has asked for. There a start goes
// by job and attempt (wire.ID.Bare), and the worker sees to its limit.
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

// numbers are the starts that a runner has which knows of no tokens: by job and attempt the token
// of each. Two claims of one job may start it under the same number; that runner has to forget the
// first before it is asked for the second.
type numbers map[wire.ID]string

// errNumber says that this is not so yet.
var errNumber = errors.New("the runner is of an older version, and has another start of this job by the same number")

// take notes a start. It fails where another claim's has that number.
func (n numbers) take(id wire.ID) bool {
	if token, taken := n[id.Bare()]; taken && token != id.Token {
		return false
	}
	n[id.Bare()] = id.Token
	return true
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
		p := r.recalled[of.id.Bare()]
		if of.id.Token == "" || p == nil || r.recalled[of.id] != nil {
			continue
		}
		p.claim.Store(&of)
		c.bare[of.id] = true
		p.guardIt()
	}
	for _, p := range r.recalled {
		id := p.claimed().id
		recalled = append(recalled, jobexec.Recalled{Job: id.Job, Token: id.Token, Attempt: id.Attempt, Process: p})
	}
	return recalled
}

// named is how the runner behind a link knows a start. Callers must hold c.mu.
func (c *connector) named(l *link, id wire.ID) wire.ID {
	if !l.tokens || c.bare[id] {
		return id.Bare()
	}
	return id
}

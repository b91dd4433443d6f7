package host

import "jobd/exec/runner/wire"

// bare are the starts that workers have named by token, as one names them that knows no tokens: a
// worker of an older version, which has come after them. It is made when such a worker connects.
//
// Two claims may have started a job under the same number. Then the outcome of the older start is
// journalled: nobody claims a job anew before that. So an older worker is told of the newer one
// only, and means that one. The other waits for a worker that can tell them apart.
type bare map[wire.ID]*job

// tell gives the jobs that the worker is to hear of, under the names that it understands. Callers
// must hold a.mu.
func (a *jobs) tell() map[wire.ID]*job {
	if a.tokens {
		return a.known
	}
	told := make(map[wire.ID]*job, len(a.known))
	for id, j := range a.known {
		if other := told[id.Bare()]; other == nil || other.child.forked < j.child.forked {
			told[id.Bare()] = j
		}
	}
	a.bare = make(bare)
	for id, j := range told {
		if j.id != id {
			a.bare[id] = j
		}
	}
	return told
}

// find gives the job that the worker means. Callers must hold a.mu.
func (a *jobs) find(id wire.ID) *job {
	if j := a.bare[id]; j != nil {
		return j
	}
	return a.known[id]
}

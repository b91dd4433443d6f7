package main

import (
	"cmp"
	"time"

	jobexec "jobd/exec"
	"jobd/net/api"
)

// Database implements service.Process.
func (d *daemon) Database() api.Standing { return d.reached(d.worker.Status()) }

// reached is whether the table can be reached. Mirror and claims each know by their last try; where
// one of them can't reach it, it is away since the first of them could not.
func (d *daemon) reached(worker jobexec.Status) api.Standing {
	since, why := d.mirror.Reachable()
	return standingOf(d.started, since, why, worker)
}

func standingOf(started, since time.Time, why error, worker jobexec.Status) api.Standing {
	claims := worker.Outage
	if claims != nil && !claims.Away {
		claims = nil
	}
	switch {
	case why == nil && claims == nil:
		return api.Standing{Reachable: true, Since: latest(started, since, worker.Returned)}
	case why == nil:
		return api.Standing{Since: claims.Since, Error: claims.Why}
	case claims != nil && claims.Since.Before(since):
		since = claims.Since
	}
	return api.Standing{Since: since, Error: why.Error()}
}

func latest(first time.Time, others ...time.Time) time.Time {
	for _, other := range others {
		if other.After(first) {
			first = other
		}
	}
	return first
}

// runnerStanding is how the worker stands with its runner.
func (d *daemon) runnerStanding() api.RunnerStanding {
	now := d.runner.Standing()
	standing := api.RunnerStanding{
		Standing: api.Standing{Reachable: now.Err == nil, Since: now.Since}, PID: now.PID,
	}
	if now.Err != nil {
		standing.Error = now.Err.Error()
	}
	return standing
}

// full is since when there is no room for the journal, and why; zero where there is.
func (d *daemon) full(worker jobexec.Status) (full api.Standing) {
	if since, err := d.reserve.Low(); err != nil {
		full = api.Standing{Since: since, Error: err.Error()}
	}
	if w := worker.Full; w != nil && (full.Since.IsZero() || w.Since.Before(full.Since)) {
		full.Since, full.Error = w.Since, cmp.Or(full.Error, w.Why)
	}
	return full
}

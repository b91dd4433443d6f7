package main

import (
	"time"

	jobexec "jobd/exec"
	"jobd/net/api"
)

// notReady says why the worker may not take work at the moment, with what is told of its parts.
// Pauses are none of it: somebody wants them.
func (d *daemon) notReady(worker jobexec.Status, s *api.WorkerStatus) (why []api.NotReady) {
	add := func(is bool, what, reason string, since time.Time) {
		if is {
			why = append(why, api.NotReady{What: what, Why: reason, Since: since})
		}
	}
	add(d.ending.Stopping() || d.ending.Restarting(), "stopping", "it stops, and claims nothing more", time.Time{})
	add(!s.Database.Reachable, "database", s.Database.Error, s.Database.Since)
	add(s.Journal.Full != "", "journal", s.Journal.Full, s.Journal.FullSince)
	add(!s.Runner.Reachable, "runner", s.Runner.Error, s.Runner.Since)
	add(s.Database.Reachable && worker.Nameless != "", "name", worker.Nameless, time.Time{})
	if h := worker.Launcher; h != nil {
		add(true, "launcher", h.Broken, h.Since)
		return why
	}
	if e := allUnready(s); e != nil {
		add(true, "launcher", e.Unready, time.UnixMilli(e.Since))
	}
	return why
}

// allUnready is one of the executors where none of the targets has one that can start a job; nil where
// some job can be started.
func allUnready(s *api.WorkerStatus) (one *api.ExecutorStatus) {
	unready := 0
	for i := range s.Executors {
		if e := &s.Executors[i]; e.Unready != "" {
			unready++
			if one == nil || e.Since < one.Since {
				one = e
			}
		}
	}
	if unready < len(s.Targets) {
		return nil
	}
	return one
}

// countRequests adds what is known of requests to services.
func (d *daemon) countRequests(executors []api.ExecutorStatus) {
	made := make(map[string]jobexec.PoolStanding)
	for _, s := range d.requests.Standings() {
		made[s.Target] = s
	}
	for i := range executors {
		if e := &executors[i]; !e.Kept() {
			e.Boots, e.Jobs = made[e.Target].Boots, made[e.Target].Jobs
		}
	}
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	jobdaemon "jobd/cmd/internal/daemon"
	jobexec "jobd/exec"
	"jobd/journal"
	jobnet "jobd/net"
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
func (d *daemon) full() (full api.Standing) {
	if since, err := d.reserve.Low(); err != nil {
		full = api.Standing{Since: since, Error: err.Error()}
	}
	return full
}

// mostAside is how many of the rows that are set aside a client is told of; their number is told
// besides.
const mostAside = 100

// aside lists the rows that can't be claimed for now, and those that the mirror can't bring up to
// date, the oldest first.
func (d *daemon) aside(rows []jobexec.QuarantinedRow) []api.QuarantinedRow {
	all := append([]jobexec.QuarantinedRow{}, rows...)
	targets := make(map[int64]string)
	held := d.mirror.Quarantined()
	d.journal.View(func(s *journal.State) {
		for _, a := range held { // a job that has ended is known to the mirror only
			targets[a.Job] = cmp.Or(a.Target, s.Job(a.Job).Target)
		}
	})
	for _, a := range held {
		all = append(all, jobexec.QuarantinedRow{
			Job: a.Job, Target: targets[a.Job], Since: a.Since,
			Reason: "the row can't be made " + a.Wanted + ": " + a.Reason,
		})
	}
	slices.SortStableFunc(all, func(a, b jobexec.QuarantinedRow) int { return a.Since.Compare(b.Since) })
	told := make([]api.QuarantinedRow, len(all))
	for i, row := range all {
		told[i] = api.QuarantinedRow{Job: jobnet.Whole(row.Job), Target: row.Target, Reason: row.Reason, Since: row.Since}
	}
	return told
}

// identity is by what rows and other workers know this one: its mark, and the database server.
func (d *daemon) identity() (mark, server string) {
	d.journal.View(func(s *journal.State) { mark, server = s.Mark, s.Server })
	return mark, server
}

// tellManager is the actor that says to the service manager how the worker stands.
func (r *root) tellManager(words func() string) jobdaemon.Actor {
	return func(ctx context.Context) error { return r.manager.Run(ctx, words) }
}

// describe is in a line how the worker stands: what it does, and what keeps it from more.
func (d *daemon) describe() string {
	worker := d.worker.Status()
	said := []string{workInWords(worker.Targets)}
	trouble := func(what string, since time.Time, why string) {
		said = append(said, fmt.Sprintf("%s since %s: %s", what, since.Local().Format(time.DateTime), why))
	}
	if database := d.reached(worker); !database.Reachable {
		trouble("the database is away", database.Since, database.Error)
	}
	if runner := d.runnerStanding(); !runner.Reachable {
		trouble("the runner is away", runner.Since, runner.Error)
	}
	if full := d.full(); full.Error != "" {
		trouble("the journal takes nothing new", full.Since, full.Error)
	}
	if broken := worker.Launcher; broken != nil {
		trouble("no job can be started", broken.Since, broken.Why)
	}
	for _, e := range worker.Executors {
		switch since := time.UnixMilli(e.Since); {
		case e.Unready != "":
			trouble("no job of target "+e.Target+" can be started", since, e.Unready)
		case e.Failing != "":
			trouble("no new process for target "+e.Target+" gets ready", since, e.Failing)
		}
	}
	for _, agent := range d.agents {
		if master := agent.Status(); !master.Registered {
			said = append(said, "not registered with the master "+master.Address)
		}
	}
	return d.reading.Words(strings.Join(said, "; "))
}

// workInWords is what the targets do.
func workInWords(targets map[string]jobexec.TargetStatus) string {
	running, prefetched, paused := 0, 0, 0
	for _, t := range targets {
		running += t.Running
		prefetched += t.Prefetched
		if t.Paused {
			paused++
		}
	}
	words := fmt.Sprintf("targets: %d, running: %d, claimed: %d", len(targets), running, prefetched)
	if paused > 0 {
		words += fmt.Sprintf(", paused: %d", paused)
	}
	return words
}

// notReady says why the worker may not take work at the moment, with what is told of its parts.
// Pauses are none of it: somebody wants them.
func (d *daemon) notReady(worker jobexec.Status, s *api.WorkerStatus) (why []api.NotReady) {
	add := func(is bool, what, reason string, since time.Time) {
		if is {
			why = append(why, api.NotReady{What: what, Why: reason, Since: since})
		}
	}
	add(d.ending.Stopping() || d.ending.Restarting(), "stopping", "it is stopping", time.Time{})
	add(!s.Database.Reachable, "database", s.Database.Error, s.Database.Since)
	add(s.Journal.Full != "", "journal", s.Journal.Full, s.Journal.FullSince)
	add(!s.Runner.Reachable, "runner", s.Runner.Error, s.Runner.Since)
	add(s.Database.Reachable && worker.Nameless != "", "name", worker.Nameless, time.Time{})
	if h := worker.Launcher; h != nil {
		add(true, "launcher", h.Why, h.Since)
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

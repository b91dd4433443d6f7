package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/process"
	"jobd/cmd/internal/service"
	"jobd/cmd/internal/version"
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
		return api.Standing{Reachable: true, Since: slices.MaxFunc([]time.Time{started, since, worker.Returned}, time.Time.Compare)}
	case why == nil:
		return api.Standing{Since: claims.Since, Error: claims.Why}
	case claims != nil && claims.Since.Before(since):
		since = claims.Since
	}
	return api.Standing{Since: since, Error: why.Error()}
}

// Describe implements service.Process.
func (d *daemon) Describe(worker jobexec.Status, status *api.WorkerStatus) {
	build, database, runner := version.Of(), d.reached(worker), d.runner.Standing()
	status.PID, status.Started = os.Getpid(), d.started.UnixMilli()
	status.Name, status.Memory = d.worker.Name, process.Memory()
	status.Version, status.Commit, status.CommitDate = build.Version, build.Commit, build.Date
	status.Database = &database
	status.Runner = &api.RunnerStanding{Standing: api.Standing{Reachable: runner.Err == nil, Since: runner.Since}, PID: runner.PID}
	if runner.Err != nil {
		status.Runner.Error = runner.Err.Error()
	}
	quarantined := d.quarantined(worker.Quarantined)
	status.Quarantined, status.QuarantinedCount = quarantined[:min(len(quarantined), mostQuarantined)], len(quarantined)
	bytes, segments := d.journal.Usage()
	shown := d.mirror.Applied()
	status.Journal = &api.JournalStatus{
		Events: d.newest(), Mirrored: shown, Bytes: bytes, Segments: segments, UnshownSince: d.unshownSince(shown),
	}
	if since, err := d.reserve.Low(); err != nil {
		status.Journal.FullSince, status.Journal.Full = since, err.Error()
	}
	d.journal.View(func(s *journal.State) { status.Mark, status.Server = s.Mark, s.Server })
	status.NotReady = d.notReady(worker, status)
	status.ConfigRefused = d.reading.Refused()
	if since, err := d.server.Refused(); err != nil && (status.ConfigRefused.IsZero() || since.Before(status.ConfigRefused)) {
		status.ConfigRefused = since // a part of it, in a file of its own
	}
	for _, agent := range d.agents {
		status.Masters = append(status.Masters, agent.Status())
	}
}

// mostQuarantined is how many of the rows that are quarantined a client is told of; their number is
// told besides.
const mostQuarantined = 100

// quarantined lists the rows that can't be claimed for now, and those that the mirror can't bring up to
// date, the oldest first.
func (d *daemon) quarantined(rows []jobexec.QuarantinedRow) []api.QuarantinedRow {
	all := []api.QuarantinedRow{}
	for _, row := range rows {
		all = append(all, api.QuarantinedRow{Job: jobnet.Whole(row.Job), Target: row.Target, Reason: row.Reason, Since: row.Since})
	}
	held := d.mirror.Quarantined()
	d.journal.View(func(s *journal.State) {
		for _, a := range held {
			all = append(all, api.QuarantinedRow{
				Job: jobnet.Whole(a.Job), Target: cmp.Or(a.Target, s.Job(a.Job).Target), Since: a.Since, // of one that has ended the mirror knows
				Reason: "the row can't be made " + a.Wanted + ": " + a.Reason,
			})
		}
	})
	slices.SortStableFunc(all, func(a, b api.QuarantinedRow) int { return a.Since.Compare(b.Since) })
	return all
}

// describe is in a line how the worker stands: what it does, and what keeps it from more.
func (d *daemon) describe() string {
	s, _ := d.service.Status(context.Background(), service.Call{}, api.None{}) // it does not fail
	said := []string{workInWords(s.Targets)}
	for _, t := range operator.Troubles(&s) {
		words := t.Effect
		if !t.Since.IsZero() {
			words += " since " + t.Since.Local().Format(time.DateTime)
		}
		said = append(said, words+": "+t.Cause)
	}
	return d.reading.Words(strings.Join(said, "; "))
}

// workInWords is what the targets do.
func workInWords(targets map[string]api.TargetStatus) string {
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

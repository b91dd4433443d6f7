package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"jobd/cmd/internal/gearman"
	"jobd/cmd/internal/refusals"
	"jobd/cmd/internal/version"
	jobexec "jobd/exec"
	"jobd/exec/request"
	"jobd/exec/runner"
	"jobd/exec/runner/proc"
	"jobd/journal"
	"jobd/master"
	jobnet "jobd/net"
	"jobd/store"
)

// The worker with its runner and mirror, and the notices by which the parts tell each other.

// How long a stop waits for the table.
const (
	settleTimeout = 10 * time.Second // for the mirror, to write what the table is owed
	asideTimeout  = 2 * time.Second  // more, for rows that it has set aside
)

// together is how long claims wait on another database server: longer than workers that met it
// together take to notice it, and to compare the rows of ten minutes.
const together = 5 * time.Second

// nameRetry is how long a start waits between two looks at a name that another worker has: that may
// be one that was just killed, whose connection the server closes in a moment.
const nameRetry = 200 * time.Millisecond

// workerPart is the worker, the runner that starts its jobs, and the mirror that brings the table
// up to date with what it journals.
type workerPart struct {
	log      logger
	history  *journalPart
	runner   *runner.Remote
	mirror   *store.Mirror
	worker   *jobexec.Worker
	refusals *refusals.Requests
	front    *gearman.Front // nil: there is none
}

// openWorker connects to the runner, and makes worker and mirror, which begin nothing yet.
func (r *root) openWorker(history *journalPart, table *tablePart) (*workerPart, error) {
	bootID, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		r.log.Warn("the host's name is not known, and will not be in the history", "error", err)
	}
	p := &workerPart{log: r.log, history: history}
	// Runner and requests call ready only after the worker has declared a target: p.worker is there then.
	ready := func(target string, mode jobexec.Mode, why string) { p.worker.SetReady(target, mode, why) }
	standing := func(s jobexec.PoolStanding) { ready(s.Target, s.Mode, s.Unready) }
	requests := jobexec.Requester(request.New(request.Config{OnStanding: standing}))
	p.front = r.newFront(table, standing)
	targets, found := r.targets, map[string]*jobexec.Launcher(nil)
	if p.front != nil {
		requests = gearman.Beside(p.front, requests)
		targets, found = r.foundTargets(p.front, table)
	}
	p.runner, err = runner.Open(runner.Config{
		Dir: history.journalDir, Path: "/proc/self/exe", Command: []string{program, runnerCommand}, Logger: r.log,
		OnReady: ready, Pulse: r.loop(history, "runner link"), Runners: history.runners(),
	})
	if err != nil {
		return nil, err
	}
	remote, launches := p.runner, jobexec.Runner(p.runner)
	if p.front != nil {
		if launches, err = gearman.Feed(p.front, launches, history.journalDir); err != nil {
			return nil, errors.Join(fmt.Errorf("workloads of Gearman's clients: %w", err), p.runner.Close())
		}
	}
	p.mirror = store.NewMirror(failMirror(history.journalDir, store.Config{
		Source: history.journal, Bookmark: history.journal, Table: table.table, Logger: r.log,
		Together: together, Pulse: r.loop(history, "mirror"),
		OnReturn: r.notices.tableBack, OnGivenBack: r.notices.givenBack,
		Replan: func(done journal.Done, claim journal.Accepted, found journal.Plan) journal.Replanned {
			return p.worker.Replan(done, claim, found)
		},
	}))
	p.refusals = refusals.New(func(event journal.Payload) error { return p.worker.Note(event) }, r.log)
	p.worker = jobexec.New(failWorker(history.journalDir, jobexec.Config{
		Host: host, Name: r.name, Version: version.Version, BootID: bootID,
		Targets: targets, Found: found, Launcher: r.launcher.launcher(), Terms: r.terms(r.time.uses),
		Delays: r.time.uses.Delays(), Again: again(r.time.uses), Zone: r.time.location, SkipMissed: r.time.skipMissed,
		MaxOutput: r.jobs.maxOutputBuffer, FetchLimit: r.store.fetchLimit,
		Prefetch: r.jobs.prefetch, PollInterval: r.jobs.pollInterval,
		LaunchOffline: r.jobs.launchOffline, Requeue: r.jobs.requeueCrashed,
		MaxAttempts:     r.jobs.maxAttempts,
		LostAfter:       r.jobs.lostAfter,
		ShutdownTimeout: r.jobs.shutdownTimeout, Handover: r.jobs.handover,
		Recorder: history.journal, Table: table.table, Mirror: p.mirror,
		Runner: launches, Keeper: remote, Watcher: remote, Disk: history.reserve,
		Pools: remote, Requester: requests, Displaced: remote.Displaced(),
		Retry:  func(what string, about ...any) jobexec.Retry { return store.NewRetry(r.log, what, about...) },
		Logger: r.log, OnTargets: r.notices.changed, Knows: history.knows, LastStart: history.lastStart,
		Pulse:    r.loop(history, "worker"),
		Observer: r.metrics,
		Doubtful: history.doubtful, WasManual: history.wasManual, OnRetried: r.notices.givenBack, LastWords: p.refusals.LastWords,
	}))
	r.pulse.Ping(p.worker.WatchdogPing)
	return p, nil
}

func (p *workerPart) close() error { return p.runner.Close() }

// identify takes the worker's name on its table, if that was reached. A name that another worker
// has ends the start. Where the table does not answer, or a former connection of this worker has
// the name still, the worker waits for it before it claims.
func (p *workerPart) identify(reached bool) error {
	if !reached {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	taken, err := takeName(ctx, p.worker.Identify)
	if taken != nil {
		return taken
	}
	if err != nil {
		p.log.Warn("nothing is claimed until this worker has its name", "error", err)
	}
	return nil
}

// takeName tries to take the name for as long as another worker has it, until ctx ends. The last
// try may be cut short by that: then what the table has said before counts.
func takeName(ctx context.Context, identify func(context.Context) error) (taken *jobexec.NameTakenError, _ error) {
	for {
		err := identify(ctx)
		if err != nil && ctx.Err() != nil && taken != nil {
			return taken, nil
		}
		if !errors.As(err, &taken) {
			return nil, err
		}
		select {
		case <-time.After(nameRetry):
		case <-ctx.Done():
			return taken, nil
		}
	}
}

// run works until ctx ends and what runs has ended. It then gives the mirror time to write what the
// table is owed, and a little more for rows that are set aside.
func (p *workerPart) run(ctx context.Context) error {
	err := p.worker.Run(ctx)
	newest := p.history.newest()
	within(p.mirror.Tried(newest), settleTimeout)
	if !within(p.mirror.Shown(newest, 0), asideTimeout) {
		p.log.Warn("stopping while the table is behind the journal; the worker's next start writes the rest",
			"events", newest-p.mirror.Applied(), "rows quarantined", len(p.mirror.Quarantined()))
	}
	return err
}

// within waits until something is done, for a time, and tells whether it is.
func within(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// notices is what parts tell others that are made after them. Each is given it when it is made; who
// listens is said once, when all are there, and before any of them works.
//
//	table  ── a server that it did not know ──► mirror
//	table  ── a connection of it is lost ─────► worker
//	mirror ── the table is back ──────────────► worker, table
//	mirror ── rows wait again ────────────────► worker, masters
//	worker ── it serves other targets ────────► masters
//	reload ── rates are other ones ───────────► masters
//
// The listener has heard a notice when the method returns: the mirror relies on that. Only a table
// has something to tell before anybody listens, while it is opened; the mirror asks by itself which
// server it is on, when it begins. The methods are safe for concurrent use, and don't block.
type notices struct{ to atomic.Pointer[listeners] }

// listeners are the parts that notices are for.
type listeners struct {
	mirror *store.Mirror
	worker *jobexec.Worker
	agents []*master.Agent
}

func (n *notices) connect(to listeners) { n.to.Store(&to) }

// tell passes a notice on, if anybody listens yet.
func (n *notices) tell(notice func(*listeners)) {
	if to := n.to.Load(); to != nil {
		notice(to)
	}
}

// serverMet: a connection has reached another database server than the table was last found on.
func (n *notices) serverMet() { n.tell(func(to *listeners) { to.mirror.CheckServer() }) }

// tableLost: the connection that holds the worker's name and mark is gone, and perhaps the table is
// out of reach.
func (n *notices) tableLost() { n.tell(func(to *listeners) { to.worker.LookAtTable() }) }

// tableBack: the table can be reached again. It may not have answered at the start, or be another
// one now, so it is examined once more; the mirror does not wait for that.
func (n *notices) tableBack() {
	n.tell(func(to *listeners) { to.worker.PollAll() })
}

// givenBack: rows of these targets wait again that were this worker's. It may run them itself, if
// it still serves them, and so may every other worker that does.
func (n *notices) givenBack(targets []string) {
	n.tell(func(to *listeners) {
		to.worker.GivenBack(targets)
		for _, agent := range to.agents {
			agent.Poke(targets)
		}
	})
}

// changed: the worker is to be registered anew, with other targets.
func (n *notices) changed() {
	n.tell(func(to *listeners) {
		for _, agent := range to.agents {
			agent.Changed()
		}
	})
}

// mostReaders is how many clients the journal is searched for at once for the end of a job.
const mostReaders = 4

// endedEvents is how many starts and ends of a job are read for its end: a row that recurs has ever more.
const endedEvents = 10

// Ended implements service.Process.
func (d *daemon) Ended(ctx context.Context, job int64, has func(target string) bool) (done *journal.Event, attempt int, err error) {
	select {
	case d.readers <- struct{}{}:
		defer func() { <-d.readers }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	defer d.memory.reading()()
	kinds := []journal.Kind{journal.KindRunning, journal.KindDone}
	for e, err := range d.journal.Reader().Events(ctx, journal.Filter{Job: job, Kinds: kinds, Output: true, Has: has, Last: endedEvents}) {
		if err != nil {
			return nil, 0, jobnet.Refusal(d.toldOfJournal(err))
		}
		switch payload := e.Payload.(type) {
		case journal.Running:
			done, attempt = nil, payload.Attempt
		case journal.Done:
			done = &e
		}
	}
	return done, attempt, nil
}

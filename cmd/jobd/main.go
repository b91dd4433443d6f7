// Command jobd is the worker daemon: it claims the jobs of its targets from
// the jobs table, runs the launcher for each and writes back how it ended.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	jobdaemon "jobd/cmd/internal/daemon"
	"jobd/cmd/internal/gearman"
	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/metrics"
	"jobd/cmd/internal/pulse"
	"jobd/cmd/internal/signals"
	"jobd/cmd/internal/systemd"
	"jobd/cmd/internal/version"
	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/journal"
	"jobd/net/api"
)

func main() { jobdaemon.Main(program, run) }

// run is the daemon, from its configuration to its end.
//
//	clients ──► server ──┐                     ┌──► runner, a process of its own ──► jobs
//	                     ├─ handlers ─► worker ┤
//	masters ◄─► agents ──┘                │    └──► table (claims)
//	                                      ▼
//	                                   journal ──► mirror ──► table (updates)
func run(p jobdaemon.Process) error {
	if err := proc.KeepCapabilities(); err != nil {
		return err
	}
	if len(p.Args) == 1 && p.Args[0] == runnerCommand {
		return serveRunner()
	}
	config, err := parseConfig(p.Args, p.Environ, p.Stdout)
	if config.Check.Asked {
		return checkAll(config, err, p.Stdout)
	}
	if err != nil {
		return err
	}
	relaxTimers(os.Args, p.Environ)
	log, err := config.OpenLog(p.Stderr)
	if err != nil {
		return err
	}
	defer log.Close()
	next, err := p.Successor(program)
	if err != nil {
		return err
	}
	next.Capabilities = proc.PassedCapabilities()
	manager := systemd.Find(log.Logger)
	defer manager.Close()
	manager.Begin()
	r := root{
		config: config, log: log.Logger, begun: time.Now(), next: next,
		ending: jobdaemon.NewEnding(), notices: &notices{}, memory: limitMemory(config),
		pulse:   pulse.New(pulse.Config{Logger: log.Logger, Limit: manager.Limit(), OnLook: manager.Look}),
		manager: manager, metrics: metrics.NewWorker(version.Of()),
	}
	if err := r.work(log); err != nil || !r.ending.Restarting() {
		return err
	}
	log.Flush()
	manager.HandOn()
	return proc.PassCapabilities(next.Become)
}

// work opens the parts, in an order in which each needs only those before it, runs them until the
// end, and closes them in reverse. What is wrong for good ends it before anything is claimed. If
// the process dies here, it leaves behind:
//
//	journal   a folder, perhaps an empty journal; the kernel frees its lock. The next start uses both
//	table     nothing: the server ends the connections
//	worker    a runner without jobs, which ends by itself
//	network   nothing: the kernel frees the port, nobody has been served
//	name      advisory locks, which go with their connection
//	opened    the first event. From here on the next start repairs, by the table in exec/doc.go
//
// A stop begins with the worker, which claims no more and waits for what runs. Server, agents and
// mirror serve it until it is through and the table shows what became of its jobs; then the clients
// get their answers. A process that dies on the way there has stopped without notice: the same
// repair.
func (r *root) work(log *logging.Log) (err error) {
	closing := func(close func() error) { err = errors.Join(err, close()) }
	if err := r.checkLaunchers(); err != nil {
		return err // none of its jobs, or none of a target's, could be started
	}
	r.manager.Status("starting: reading the journal")
	journal, err := r.openJournal()
	if err != nil {
		return err
	}
	defer closing(journal.close)
	r.manager.Status("starting: looking at the table")
	table, err := r.openTable(journal)
	if err != nil {
		return err
	}
	defer closing(table.close)
	r.manager.Status("starting: taking up what runs")
	worker, err := r.openWorker(journal, table)
	if err != nil {
		return err
	}
	defer closing(worker.close)
	network, err := r.openNetwork(journal, table, worker)
	if err != nil {
		return err
	}
	defer closing(network.close)
	r.notices.connect(listeners{mirror: worker.mirror, worker: worker.worker, agents: network.agents})
	if err := worker.identify(table.reached); err != nil {
		return err
	}
	if err := worker.worker.Open(os.Getpid()); err != nil {
		return err
	}

	reloader := &reloader{
		args: r.next.Args, environ: r.next.Environ, log: r.log,
		worker: worker.worker, refusals: worker.refusals, current: r.config, started: r.config,
		inForce: r.terms(r.time.uses), changed: r.notices.changed, front: worker.front,
	}
	network.reload = func(by string) (told api.Reloaded, err error) {
		r.manager.Reload(func() {
			err = r.reading.Reload(log, func() (settings jobdaemon.Settings, err error) {
				settings, told, err = reloader.takeOver(by)
				return settings, err
			})
		})
		return told, err
	}
	r.log.Info("worker serves", "name", r.name, "address", network.address(), "sockets", network.server.Sockets(), "targets", worker.worker.TargetNames())
	r.manager.Ready()
	return jobdaemon.Life{
		Ending: r.ending, Log: r.log, Hurry: worker.worker.Hurry,
		Reload: func() { _, _ = network.reload(bySignal) },
		Ends:   func() { r.manager.End(r.ending.Restarting()) },
		Stages: [][]jobdaemon.Actor{
			{worker.run},
			append(network.actors(), worker.mirror.Run, journal.journal.Run, journal.runIndex, r.pulse.Run, func(ctx context.Context) error {
				return r.manager.Run(ctx, network.words)
			}),
		},
	}.Run(signals.Caught())
}

type logger = *slog.Logger

// root is what the parts are made from, each by a method of its own.
type root struct {
	config
	log     logger
	begun   time.Time
	next    jobdaemon.Successor // what follows where a client has the worker restarted
	ending  *jobdaemon.Ending
	notices *notices
	memory  *memory
	pulse   *pulse.Pulse // of the loops of all parts
	manager *systemd.Manager
	reading jobdaemon.Reading
	metrics *metrics.Worker
	front   atomic.Pointer[gearman.Front] // nil: there is none, or it is not made yet
}

// committed hears of a commit of the journal.
func (r *root) committed(events []journal.Event, bytes int64, took time.Duration) {
	r.metrics.Committed(events, bytes, took)
	if f := r.front.Load(); f != nil {
		f.Committed(events)
	}
}

// loop gives the pulse of a loop, by its name.
func (r *root) loop(journal *journalPart, name string) jobexec.Pulse {
	return failPulse(journal.journalDir, name, r.pulse.Loop(name))
}

// restarter has the worker followed by its next start (service.Restart says when): the same process,
// with the binary that is on the disk by then. What runs goes on with the runner. The binary reads
// the whole configuration first, with the arguments and the environment that it will have, and says
// whether a start would end, before anything is given up.
//
// The crash argument: a worker that is killed while it tries the binary leaves that to end by
// itself; the binary has taken nothing. Where the binary can't be executed after all, the process
// ends with exit code 1, and whatever watches over it starts it.
type restarter struct {
	next   jobdaemon.Successor
	ending *jobdaemon.Ending
	held   func() []string // where the worker listens, for clients first
	log    logger
}

// Reload implements service.Process.
func (p *networkPart) Reload(by string) (api.Reloaded, error) { return p.reload(by) }

// Stopping implements service.Process.
func (r *restarter) Stopping() bool { return r.ending.Stopping() }

// Restart implements service.Process.
func (r *restarter) Restart(by string) {
	r.log.Info("restarting", "by", by, "binary", r.next.Binary)
	r.ending.Restart()
}

// Follow implements service.Process: it has the binary say whether it would start, and says what it
// will be.
func (r *restarter) Follow(ctx context.Context) (next api.Successor, err error) {
	if err := r.next.Try(ctx, r.held()...); err != nil {
		return next, err
	}
	config, err := parseConfig(r.next.Args, r.next.Environ, io.Discard)
	if err != nil { // it has changed in this moment, or the binary takes what this one does not
		return next, err
	}
	return api.Successor{PID: os.Getpid(), Address: config.Listen.Address()}, nil
}

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"jobd/journal/eventlog"

	oklog "github.com/oklog/run"
	"golang.org/x/sys/unix"

	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/signals"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/master"

	jobnet "jobd/net"
	"jobd/store"
)

// How long the last steps of stopping may take.
const (
	settleTimeout   = 10 * time.Second // for the mirror, to write what the table is owed
	asideTimeout    = 2 * time.Second  // more, for rows that it has set aside
	shutdownTimeout = 5 * time.Second  // for clients, to take their answers
)

// run is the daemon, from its configuration to its end.
//
//	clients ──► server ──┐                     ┌──► runner, a process of its own ──► jobs
//	                     ├─ handlers ─► worker ┤
//	masters ◄─► agents ──┘                │    └──► table (claims)
//	                                      ▼
//	                                   journal ──► mirror ──► table (updates)
//
// A stop begins with the worker, which claims no more and waits for what runs. Server,
// agents and mirror serve it until it is through and the table shows what became of its
// jobs; then the clients get their answers, and table and journal are closed.
func run(args, environ []string, stdout, stderr io.Writer) error {
	if len(args) == 1 && args[0] == runnerCommand {
		return serveRunner()
	}
	config, err := parseConfig(args, environ, stdout)
	if config.check.Asked {
		return checkAll(config, err, stdout)
	}
	if err != nil {
		return err
	}
	relaxTimers(os.Args, environ)
	log, err := logging.Open(config.log, stderr)
	if err != nil {
		return err
	}
	defer log.Close()
	log.Warnings(config.warnings)

	d, err := open(config, log.Logger)
	if err != nil {
		return err
	}
	d.memory, d.args, d.environ = limitMemory(config), args, environ
	if d.binary, err = findBinary(); err != nil {
		return errors.Join(err, d.release())
	}
	reload := reloader{args: args, environ: environ, log: log, worker: d.worker, refusals: d.refusals, current: config}
	if err := errors.Join(d.serve(signals.Caught(), &reload), d.close()); err != nil || !d.restarting {
		return err
	}
	log.Flush()
	return become(d.binary, environ)
}

// serve runs everything until a signal, or until something fails.
func (d *daemon) serve(caught <-chan os.Signal, reload *reloader) error {
	working, stopWork := context.WithCancel(context.Background())
	defer stopWork()
	serving, stopServing := context.WithCancel(context.Background())
	defer stopServing()

	var group oklog.Group
	{ // The worker: the others end when it has.
		group.Add(func() error {
			defer stopServing()
			defer d.settle()
			return d.worker.Run(working)
		}, func(error) { stopWork() })
	}
	{ // The mirror.
		group.Add(func() error { return d.mirror.Run(serving) }, func(error) {})
	}
	{ // The journal's upkeep: segments are sealed, archived, removed.
		group.Add(func() error { return d.journal.Run(serving) }, func(error) {})
	}
	{ // The server.
		group.Add(func() error { return d.server.Serve(serving, d.listener) }, func(error) {})
	}
	for _, agent := range d.agents { // The masters.
		group.Add(func() error { return agent.Run(serving) }, func(error) {})
	}
	{ // The worker's name, where it turns out to be another one's.
		group.Add(func() error {
			select {
			case taken := <-d.nameless:
				return taken
			case <-serving.Done():
				return nil
			}
		}, func(error) {})
	}
	{ // Signals.
		group.Add(func() error {
			d.handle(caught, serving, stopWork, reload)
			return nil
		}, func(error) {})
	}
	d.log.Info("worker serves", "name", d.worker.Name, "address", d.listener.Addr().String(), "targets", d.worker.TargetNames())
	return group.Run()
}

// handle acts on signals until the worker has ended: the first SIGTERM or SIGINT stops
// it, a second one makes it hurry, SIGHUP makes it read its configuration again. A client's
// restart stops it too.
func (d *daemon) handle(caught <-chan os.Signal, serving context.Context, stopWork func(), reload *reloader) {
	for stopping := false; ; {
		select {
		case <-serving.Done():
			return
		case <-d.restarts:
			if !stopping { // else it is for good
				stopping, d.restarting = true, true
				stopWork()
			}
		case s := <-caught:
			switch {
			case s == unix.SIGHUP:
				reload.reload()
			case !stopping || d.restarting:
				stopping, d.restarting = true, false
				d.stopping.Store(true)
				d.log.Info("stopping", "signal", s.String())
				stopWork()
			default:
				d.log.Warn("stopping at once", "signal", s.String())
				d.worker.Hurry()
			}
		}
	}
}

// settle gives the mirror time to write what the table is owed, and a little more for rows that are set aside.
func (d *daemon) settle() {
	within(d.mirror.Tried(d.newest()), settleTimeout)
	if within(d.mirror.Shown(d.newest(), 0), asideTimeout) {
		return
	}
	d.log.Warn("stopping with a table that is behind; the journal has the rest, and the next start writes it",
		"events", d.newest()-d.mirror.Applied(), "rows set aside", len(d.mirror.Aside()))
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

// close ends what serve has used: the clients, who get their answers first, then
// table and journal.
func (d *daemon) close() error {
	answers, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := d.server.Shutdown(answers); err != nil {
		d.log.Warn("a client did not take its answer", "error", err)
	}
	return d.release()
}

// newest is the journal's newest event.
func (d *daemon) newest() (seq uint64) {
	d.journal.View(func(s *journal.State) { seq = s.Seq })
	return seq
}

// daemon is the worker's parts, open and ready to run.
type daemon struct {
	binary     string        // what a restart starts
	restarts   chan struct{} // a client wants a restart
	nameless   chan error    // the worker's name is another one's
	restarting bool          // the stop under way is for one

	args, environ []string // of this process
	restartBegun  atomic.Bool
	stopping      atomic.Bool // for good
	started       time.Time

	log        logger
	memory     *memory
	journalDir string
	journal    *eventlog.Log
	reserve    *eventlog.Reserve
	table      store.Table
	reached    bool        // the table answered when it was opened
	folds      atomic.Bool // the table takes names for one that differ in case
	runner     io.Closer
	mirror     *store.Mirror
	mirrored   atomic.Pointer[store.Mirror] // mirror, for connections that are made before it
	worker     *jobexec.Worker
	listener   net.Listener
	refusals   *refusals
	server     *jobnet.Server
	agents     []*master.Agent
}

// release gives up what open took, in reverse.
func (d *daemon) release() error {
	var errs []error
	if d.listener != nil {
		if err := d.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if d.runner != nil {
		errs = append(errs, d.runner.Close())
	}
	if d.table != nil {
		errs = append(errs, d.table.Close())
	}
	if d.reserve != nil {
		errs = append(errs, d.reserve.Close())
	}
	if d.journal != nil {
		errs = append(errs, d.journal.Close())
	}
	return errors.Join(errs...)
}

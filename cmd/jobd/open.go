package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"jobd/cmd/internal/version"
	"jobd/journal/eventlog"

	jobexec "jobd/exec"
	"jobd/exec/runner"
	"jobd/exec/runner/proc"
	"jobd/master"

	jobnet "jobd/net"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/sqlite"
)

type logger = *slog.Logger

// checkTimeout bounds how long a start waits for a table that does not answer;
// it then goes on without.
const checkTimeout = 3 * time.Second

// together is how long claims wait on another database server: longer than workers that met it together take to notice it,
// and to compare the rows of ten minutes.
const together = 5 * time.Second

// open readies all parts of the daemon. What is wrong for good ends it here:
// nothing has been claimed yet, and nothing is left behind.
func open(c config, log logger) (*daemon, error) {
	d := &daemon{log: log, restarts: make(chan struct{}, 1), nameless: make(chan error, 1), started: time.Now()}
	if err := d.open(c); err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

func (d *daemon) open(c config) error {
	steps := []func(config) error{d.checkLauncher, d.openJournal, d.openTable, d.checkTargets, d.openWorker, d.listen, d.identify}
	for _, step := range steps {
		if err := step(c); err != nil {
			return err
		}
	}
	// Last, because it changes the journal.
	return d.worker.Open(os.Getpid())
}

// checkLauncher refuses to start a worker none of whose jobs could be started.
func (d *daemon) checkLauncher(c config) error { return c.launcher.check() }

func (d *daemon) openJournal(c config) error {
	var err error
	if d.journalDir, err = c.resolveJournalDir(os.Getenv); err != nil {
		return err
	}
	d.journal, err = eventlog.Open(context.Background(), eventlog.Config{
		Dir: d.journalDir, Logger: d.log,
		SegmentSize: c.journal.segmentSize, SegmentAge: c.journal.segmentAge,
		Retention: c.journal.retention, ArchiveDir: c.journal.archiveDir,
	})
	if err != nil {
		return err
	}
	d.reserve, err = eventlog.OpenReserve(d.journalDir, c.journal.minFree)
	return err
}

// openTable opens the table and examines it. A table that can't be reached is waited
// for later; one that can't be used is an error.
func (d *daemon) openTable(c config) error {
	var err error
	if c.store.kind == storeSQLite {
		d.table, err = sqlite.New(sqlite.Config{
			Path: c.store.sqlitePath, Table: c.store.mysql.table,
			ClaimColumn: c.store.claimColumn, Worker: c.name, Logger: d.log,
			OnServer: d.onServer, OnOdd: d.onOdd,
		})
	} else {
		config := c.mysqlConfig()
		config.Logger, config.OnServer, config.OnOdd = d.log, d.onServer, d.onOdd
		d.table, err = mysql.New(failTable(d.journalDir, config))
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	var unusable *store.Unusable
	err = d.table.Check(ctx)
	if errors.As(err, &unusable) {
		return err
	}
	if err != nil {
		d.log.Warn("the table can't be reached; serving without it until it can", "error", err)
	}
	d.reached = err == nil
	return nil
}

// mysqlConfig is where the table is, and as whom it is used.
func (c *config) mysqlConfig() mysql.Config {
	return mysql.Config{
		Host: c.store.mysql.host, Port: c.store.mysql.port,
		User: c.store.mysql.user, Password: c.store.mysql.password,
		Database: c.store.mysql.database, Table: c.store.mysql.table,
		ClaimColumn: c.store.claimColumn, Worker: c.name,
		MaxOpen: c.store.mysql.maxConnections, MaxOutput: int(c.run.maxOutputBuffer),
	}
}

func (d *daemon) openWorker(c config) error {
	remote, err := runner.Open(runner.Config{
		Dir: d.journalDir, Path: "/proc/self/exe", Command: []string{"jobd", runnerCommand}, Logger: d.log,
	})
	if err != nil {
		return err
	}
	d.runner = remote
	bootID, err := proc.BootID()
	if err != nil {
		return err
	}
	d.mirror = store.NewMirror(failMirror(d.journalDir, store.Config{
		Source: d.journal, Bookmark: d.journal, Table: d.table, Logger: d.log,
		Server: d.lastServer(), Together: together, OnReturn: d.onReturn, OnGivenBack: d.onGivenBack,
	}))
	d.mirrored.Store(d.mirror)
	host, err := os.Hostname()
	if err != nil {
		d.log.Warn("the host's name is not known, and will not be in the history", "error", err)
	}
	d.worker = jobexec.New(failWorker(d.journalDir, jobexec.Config{
		Host: host, Name: c.name, Version: version.Version, BootID: bootID,
		Targets: c.targets, Launcher: c.launcher.launcher(),
		MaxOutput: int(c.run.maxOutputBuffer), FetchLimit: c.store.mysql.fetchLimit,
		Prefetch: c.run.prefetch, PollInterval: c.run.pollInterval,
		LaunchOffline: c.run.launchOffline, Requeue: c.run.requeueCrashed,
		MaxAttempts:     c.run.maxAttempts,
		LostAfter:       c.run.lostAfter,
		ShutdownTimeout: c.run.shutdownTimeout, Handover: c.run.handover,
		Recorder: d.journal, Table: d.table, Mirror: d.mirror,
		Runner: remote, Keeper: remote, Disk: d.reserve,
		Retry:  func(what string) jobexec.Retry { return store.NewRetry(d.log, what) },
		Logger: d.log, OnTargets: d.onTargets, Knows: d.knows,
		Ignored: d.ignoredLast, LastWords: d.lastWords,
		OnNameTaken: d.noteTaken, NamePatience: checkTimeout,
	}))
	d.refusals = newRefusals(d.worker.Note, d.log)
	return nil
}

func (c *launcherConfig) launcher() jobexec.Launcher {
	return jobexec.Launcher{Words: c.words, Dir: c.dir, Env: c.env}
}

// listen opens the port and readies those who talk to clients and masters.
func (d *daemon) listen(c config) error {
	listener, err := net.Listen("tcp", c.listen.Address())
	if err != nil {
		return fmt.Errorf("listen for clients (keys host and port): %w", err)
	}
	d.listener = listener
	handlers := handlers{d}.all()
	d.server = jobnet.NewServer(jobnet.ServerConfig{
		Handlers: handlers, Password: c.listen.Password,
		AlwaysAllowLocalhost: c.listen.AllowLocalhost,
		MaxMessageSize:       int(c.listen.MaxMessageSize), Logger: d.log,
		OnLinks: func(open int) { d.memory.linked(open) },
	})
	self, err := instance(d.journalDir)
	if err != nil {
		return err
	}
	for _, address := range c.masters.addresses {
		d.agents = append(d.agents, master.NewAgent(master.AgentConfig{
			Address: address, Name: c.name, Targets: d.worker.TargetNames,
			Handlers: handlers, Password: c.listen.Password,
			MaxMessageSize:   int(c.listen.MaxMessageSize),
			ReconnectTimeout: c.masters.reconnect, DrainTimeout: shutdownTimeout,
			Instance: self, OnRegistered: d.onRegistered, Folds: d.folds.Load,
			Logger: d.log,
		}))
	}
	return nil
}

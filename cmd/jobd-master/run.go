package main

import (
	"context"
	"errors"
	"io"
	"time"

	"jobd/cmd/internal/daemon"
	"jobd/cmd/internal/metrics"
	"jobd/cmd/internal/process"
	"jobd/cmd/internal/pulse"
	"jobd/cmd/internal/signals"
	"jobd/cmd/internal/systemd"
	"jobd/cmd/internal/version"
	"jobd/master"
	jobnet "jobd/net"
	"jobd/net/api"
)

// stopTimeout is how long the answers under way get when the master stops. Clients that wait for
// manual jobs may wait for days, so the master does not wait for them; their jobs run on.
const stopTimeout = 3 * time.Second

// run is the daemon, from its configuration to its end. Its errors carry their exit codes.
//
//	clients ──► server ──► master ──► workers     status, poke, run-manual, …
//	workers ──► server ──► master                 register-worker
//	            master ──► workers                polls and pings, over the links that they made
//	            master ──► record                 who asks for changes, which workers come and go
//
// Everything ends together on a signal: the server gives the answers under way a moment, the
// master delivers the pokes that it acknowledged.
func run(p daemon.Process) (err error) {
	config, err := parseConfig(p.Args, p.Environ, p.Stdout)
	if config.Check.Asked {
		return config.Look("jobd-master", err, func() string { return "" }, config.parts(), p.Stdout)
	}
	if err != nil {
		return err
	}
	log, err := config.OpenLog(p.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	manager := systemd.Find(log.Logger)
	defer manager.Close()
	manager.Begin()
	beat := pulse.New(pulse.Config{Logger: log.Logger, Limit: manager.Limit(), OnLook: manager.Look})
	build := version.Of()
	of := master.Config{
		PingInterval: config.pingInterval, PokeThrottle: config.pokeThrottle, Logger: log.Logger, Memory: process.Memory,
		Build: api.Build{Version: build.Version, Commit: build.Commit, CommitDate: build.Date}, Pulse: failPulse("workers", beat.Loop("workers")),
	}
	record, err := newRecord(config.journal, log.Logger)
	if err != nil {
		return err
	}
	actors := []daemon.Actor{}
	if record != nil {
		defer record.close()
		of.Recorder = record
		actors = append(actors, record.run)
	}
	var server *daemon.Server // nobody asks before it is there
	of.Troubles = func() []api.NotReady { return troubles(record, server) }
	workers := master.New(of)
	counting := metrics.NewMaster(build)
	sockets, err := manager.Sockets()
	if err != nil {
		return err
	}
	server, err = daemon.Listen(config.Listen, sockets, "clients and workers", jobnet.ServerConfig{
		Handlers: counting.Count(workers.Handlers()), Logger: log.Logger, Pulse: failPulse("accept", beat.Loop("accept")),
	})
	if err != nil {
		return err
	}

	if record != nil {
		if err := record.open(); err != nil {
			return errors.Join(err, server.Close())
		}
	}
	told, err := openWeb(config, server, counting, workers, record.troubles, beat, log.Logger)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	defer func() { err = errors.Join(err, told.Close()) }()
	log.Info("master serves", "version", version.Version, "address", server.Address(), "sockets", server.Sockets())
	serve := func(ctx context.Context) error {
		return server.Serve(ctx, stopTimeout, "stopped before all requests were answered")
	}
	var reading daemon.Reading
	tell := func(ctx context.Context) error {
		return manager.Run(ctx, func() string { return reading.Words(workers.Describe()) })
	}
	takeOver := func() (daemon.Settings, error) {
		config, err := parseConfig(p.Args, p.Environ, io.Discard)
		return config.Settings, err
	}
	manager.Ready()
	err = daemon.Life{
		Ending: daemon.NewEnding(), Log: log.Logger,
		Reload: func() { manager.Reload(func() { _ = reading.Reload(log, takeOver) }) },
		Ends:   func() { manager.End(false) },
		Stages: [][]daemon.Actor{append(actors, told.Serve, workers.Run, serve, beat.Run, tell)},
	}.Run(signals.Caught())
	if err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

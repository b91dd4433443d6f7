package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	oklog "github.com/oklog/run"
	"golang.org/x/sys/unix"

	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/signals"
	"jobd/cmd/internal/version"
	"jobd/master"
	jobnet "jobd/net"
)

// stopTimeout is how long the answers under way get when the master stops. Clients that wait for manual jobs
// may wait for days, so they are not waited for; their jobs run on.
const stopTimeout = 3 * time.Second

// run is the daemon, from its configuration to its end. Its errors carry their exit codes.
//
//	clients ──► server ──► master ──► workers     status, poke, run-manual, …
//	workers ──► server ──► master                 register-worker
//	            master ──► workers                polls and pings, over the links that they made
//
// Everything ends together on a signal: the server gives the answers under way a moment, the
// master delivers the pokes that it acknowledged.
func run(args, environ []string, stdout, stderr io.Writer) (err error) {
	config, err := parseConfig(args, environ, stdout)
	if config.check.Asked {
		return checkAll(config, err, stdout)
	}
	if err != nil {
		return err
	}
	log, err := logging.Open(config.log, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	log.Warnings(config.warnings)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	listener, err := net.Listen("tcp", config.listen.Address())
	if err != nil {
		return fmt.Errorf("listen for clients and workers (keys host and port): %w", err)
	}
	workers := master.New(master.Config{PingInterval: config.pingInterval, PokeThrottle: config.pokeThrottle, Logger: log.Logger})
	server := jobnet.NewServer(jobnet.ServerConfig{
		Handlers: workers.Handlers(), Password: config.listen.Password, AlwaysAllowLocalhost: config.listen.AllowLocalhost,
		MaxMessageSize: int(config.listen.MaxMessageSize), Logger: log.Logger,
	})

	var group oklog.Group
	{ // The master.
		group.Add(func() error { return workers.Run(ctx) }, func(error) { cancel() })
	}
	{ // The server.
		group.Add(func() error { return serve(ctx, server, listener, log.Logger) }, func(error) { cancel() })
	}
	{ // Signals.
		reload := func() { reload(log, args, environ) }
		group.Add(func() error { handle(ctx, signals.Caught(), reload); return nil }, func(error) { cancel() })
	}
	log.Info("master serves", "version", version.Version, "address", listener.Addr().String())
	if err := group.Run(); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// serve serves until ctx ends, and then gives the answers under way a moment.
func serve(ctx context.Context, server *jobnet.Server, listener net.Listener, log *slog.Logger) error {
	served := server.Serve(ctx, listener)
	ending, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		log.Warn("stopped before all requests were answered", "error", err)
	}
	return served
}

// handle calls reload on every SIGHUP, until a SIGTERM or SIGINT comes or ctx ends.
func handle(ctx context.Context, caught <-chan os.Signal, reload func()) {
	for {
		select {
		case s := <-caught:
			if s != unix.SIGHUP {
				return
			}
			reload()
		case <-ctx.Done():
			return
		}
	}
}

// reload reopens the log and takes over the log levels of the configuration.
func reload(log *logging.Log, args, environ []string) {
	if err := log.Reopen(); err != nil {
		log.Error("log file not reopened", "error", err)
	}
	config, err := parseConfig(args, environ, io.Discard)
	if err != nil {
		log.Error("configuration not read again: the old one stays", "error", err)
		return
	}
	log.SetLevels(config.log)
	log.Info("configuration read again", "file", config.path)
}

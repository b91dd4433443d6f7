package main

import (
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/host"
)

// runnerCommand is the word that makes jobd a runner. Only jobd itself uses it.
const runnerCommand = "runner"

// runnerProcessors are enough for two starts, which hold one each, and all the rest. More of them
// only wake each other.
const runnerProcessors = 3

// serveRunner is the runner process: no configuration, no network, no database, only jobs. It ends
// when it has none and no worker is connected.
func serveRunner() error {
	// A handler, not SIG_IGN, which jobs would inherit: a log that nobody reads must not end the
	// runner.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE, unix.SIGHUP, unix.SIGINT)
	signal.Reset(unix.SIGTERM) // main has caught it, for a worker
	debug.SetGCPercent(runnerGCPercent)
	defer runtime.KeepAlive(make([]byte, runnerUntouched))
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), runnerProcessors))
	return host.Serve(slog.New(slog.NewTextHandler(os.Stderr, nil)))
}

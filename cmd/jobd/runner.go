package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"jobd/exec/runner"
)

// runnerCommand is the word that makes jobd a runner. Only jobd itself uses it.
const runnerCommand = "runner"

// runnerSocket is the descriptor on which a runner is given its socket.
const runnerSocket = 3

// runnerProcessors are enough for two starts, which hold one each, and all the rest; more of them only wake
// each other.
const runnerProcessors = 3

// serveRunner is the runner process: no configuration, no network, no database, only
// jobs. It ends when it has none and nobody is connected.
func serveRunner() error {
	// A handler, not SIG_IGN, which jobs would inherit: a log that nobody reads must not end us.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE, unix.SIGHUP, unix.SIGINT)
	signal.Reset(unix.SIGTERM) // which main has caught, for a worker
	debug.SetGCPercent(runnerGCPercent)
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), runnerProcessors))
	file := os.NewFile(runnerSocket, "runner socket")
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("jobd runner is started by jobd itself, with a socket as descriptor %d: %w", runnerSocket, err)
	}
	file.Close()
	socket, ok := listener.(*net.UnixListener)
	if !ok {
		return fmt.Errorf("runner: descriptor %d is no unix socket", runnerSocket)
	}
	server, err := runner.NewServer(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	return server.Serve(socket)
}

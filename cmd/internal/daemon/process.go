// Package daemon is what jobd and jobd-master have in common: how the process begins, what both are
// told about their address, their log and --check, how they serve and read their configuration
// again, and in which order they stop.
//
//	Main ──► run of the program: Settings.Read ─┬─► Settings.Look    with --check
//	                                            └─► OpenLog, Listen, Life.Run
//	                                                   ▲ Ending: a signal, a client or a part asks for the end
//
// It keeps nothing on disk, so that there is nothing to repair after a crash.
package daemon

import (
	"io"
	"os"
	"runtime/debug"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/signals"
)

// Process is what a program was started with.
type Process struct {
	Args, Environ  []string // as of os.Args, without the program's own name, and of os.Environ
	Stdout, Stderr io.Writer
}

// Main runs a daemon in this process, and ends the process with the daemon's exit code. It catches
// signals and hides the process before anything else.
func Main(name string, run func(Process) error) {
	signals.Catch()
	// A panic, or the abort by which a watchdog ends a daemon that hangs, ends it by a signal, with the
	// stacks on stderr: the exit code 2 of Go's own would pass for a wrong configuration, after which
	// nobody starts it again. There is no core file: see hide.
	debug.SetTraceback("crash")
	err := hide()
	if err == nil {
		err = run(Process{os.Args[1:], os.Environ(), os.Stdout, os.Stderr})
	}
	os.Exit(exit.Report(logging.Patient(os.Stderr), name, err))
}

// Command jobd is the worker daemon: it claims the jobs of its targets from
// the jobs table, runs the launcher for each and writes back how it ended.
package main

import (
	"os"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/logging"
	hiding "jobd/cmd/internal/private"
	"jobd/cmd/internal/signals"
)

// main catches signals first, and hides the process, be it a worker or a runner: jobs are not to read its passwords.
func main() {
	signals.Catch()
	err := hiding.Hide()
	if err == nil {
		err = run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	}
	os.Exit(exit.Report(logging.Patient(os.Stderr), "jobd", err))
}

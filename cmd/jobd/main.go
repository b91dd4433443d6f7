// Command jobd is the worker daemon: it claims the jobs of its targets from
// the jobs table, runs the launcher for each and writes back how it ended.
package main

import (
	"os"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/private"
)

// main hides the process first, be it a worker or a runner: jobs are not to read its passwords.
func main() {
	err := private.Hide()
	if err == nil {
		err = run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	}
	os.Exit(exit.Report(os.Stderr, "jobd", err))
}

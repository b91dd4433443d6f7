// Command jobd is the worker daemon: it claims the jobs of its targets from
// the jobs table, runs the launcher for each and writes back how it ended.
package main

import (
	"os"

	"jobd/cmd/internal/exit"
)

func main() {
	os.Exit(exit.Report(os.Stderr, "jobd", run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)))
}

package main

import (
	"os"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/private"
	"jobd/cmd/internal/signals"
)

// main catches signals first, and hides the process: its password is nobody else's.
func main() {
	signals.Catch()
	err := private.Hide()
	if err == nil {
		err = run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	}
	os.Exit(exit.Report(logging.Patient(os.Stderr), "jobd-master", err))
}

package main

import (
	"os"

	"jobd/cmd/internal/exit"
)

func main() {
	os.Exit(exit.Report(os.Stderr, "jobd-master", run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)))
}

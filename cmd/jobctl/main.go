// Command jobctl asks workers and masters, and reads journals, for operators and auditors.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"jobd/cmd/internal/exit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(exit.Report(os.Stderr, "jobctl", run(ctx, os.Args[1:], surroundings{
		environ: os.Environ(), in: os.Stdin, out: os.Stdout, err: os.Stderr,
		terminal: term.IsTerminal(int(os.Stdout.Fd())), errTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		now: time.Now, location: time.Local, giveWay: giveWay,
	})))
}

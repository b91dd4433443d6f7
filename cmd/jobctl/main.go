// Command jobctl asks workers and masters, and reads journals, for operators and auditors.
package main

import (
	"context"
	"os"
	"time"

	"golang.org/x/term"
)

func main() {
	ctx, stop := interruptible(context.Background())
	defer stop()
	os.Exit(shell(ctx, os.Args[1:], surroundings{
		environ: os.Environ(), in: os.Stdin, out: os.Stdout, err: os.Stderr,
		terminal: term.IsTerminal(int(os.Stdout.Fd())), errTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		now: time.Now, location: time.Local, giveWay: giveWay,
	}))
}

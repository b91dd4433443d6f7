// Command jobctl asks workers and masters, and reads journals, for operators and auditors.
package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"golang.org/x/term"
)

func main() {
	ctx, stop := interruptible(context.Background())
	defer stop()
	os.Exit(shell(ctx, os.Args[1:], surroundings{
		environ: os.Environ(), in: os.Stdin, out: os.Stdout, err: os.Stderr,
		terminal: term.IsTerminal(int(os.Stdout.Fd())), errTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		width: width(os.Stdout, os.Getenv("COLUMNS")), errWidth: width(os.Stderr, os.Getenv("COLUMNS")), now: time.Now, location: time.Local, giveWay: giveWay,
	}))
}

// width gives how many columns a terminal has at the moment; a number in COLUMNS counts before what
// the terminal says.
func width(file *os.File, given string) func() int {
	return func() int {
		if n, err := strconv.Atoi(given); err == nil && n > 0 {
			return n
		}
		n, _, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 0
		}
		return n
	}
}

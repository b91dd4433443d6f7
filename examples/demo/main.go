package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/term"
)

// timeout is far more than the demo takes on a slow machine.
const timeout = 2 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// The order of the deferred calls is the order of the end: daemons, table, folder.
//
//	rows ──INSERT──► table ◄──claim, update── jobd north ──┐
//	                   ▲                                   ├──► launch.sh ──► oracle
//	                   └──────claim, update── jobd south ──┘
//	jobctl ──poke, run-manual, send-signal──► jobd-master ──► both workers
func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	store := flags.String("store", "sqlite", "where the table is: sqlite or mysql (a MariaDB of the demo's own)")
	gearman := flags.Bool("gearman", false, "show programs that were written for gearmand instead")
	bin := flags.String("bin", "bin", "folder with jobd, jobd-master and jobctl")
	if err := flags.Parse(args); err != nil {
		return err
	}
	asked := ctx
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	dir, err := os.MkdirTemp("", "jobd-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	programs, err := filepath.Abs(*bin)
	if err != nil {
		return err
	}
	site := &site{dir: dir, bin: programs, oracle: filepath.Join(dir, "oracle"), stdout: stdout}
	defer func() { site.stop(stdout, err != nil && !errors.Is(err, context.Canceled)) }()
	if *gearman {
		return site.gearman(ctx)
	}
	table, err := openTable(ctx, *store, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, table.close()) }()
	defer func() { site.stop(stdout, err != nil && !errors.Is(err, context.Canceled)) }()
	if err := site.start(ctx, table.settings); err != nil {
		return err
	}
	if err := site.work(ctx, table); err != nil {
		return err
	}
	if err := site.report(ctx, table); err != nil {
		return err
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		hold(asked, stdout)
	}
	return nil
}

// holdFor is how long the page is there for whoever looks at it.
const holdFor = 10 * time.Minute

// hold lets a person look at the page, until Enter or Ctrl-C.
func hold(ctx context.Context, stdout io.Writer) {
	fmt.Fprintf(stdout, "\nthe page stays for %v: Enter ends it\n", holdFor)
	enter := make(chan struct{})
	go func() { // it ends with the process, where nobody presses Enter
		defer close(enter)
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	}()
	select {
	case <-enter:
	case <-ctx.Done():
	case <-time.After(holdFor):
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/term"

	"jobd/cmd/internal/logging"
	"jobd/cmd/jobctl/live"
)

// The intervals at which top asks.
const (
	topInterval   = time.Second
	leastInterval = 500 * time.Millisecond
)

func (p *program) top() *ffcli.Command {
	interval := topInterval
	c := command("top", "top [--interval D]", "a live view of workers, targets and running jobs, with keys", func(ctx context.Context, args []string) error {
		if err := p.viewable(args); err != nil {
			return err
		}
		return p.linked(ctx, func(ctx context.Context, first *client) error {
			if err := first.expect(ctx); err != nil {
				return err
			}
			return p.live(ctx, first, interval)
		})
	})
	c.FlagSet.Var(lengthFlag{length: &interval, least: leastInterval}, "interval", fmt.Sprintf("how often it is asked what is shown; %v at least (default: %v)", leastInterval, topInterval))
	c.LongHelp = "  jobctl top\n  jobctl --master --host 10.0.0.1 top --interval 5s"
	return c
}

// viewable refuses what can't be shown, or where.
func (p *program) viewable(args []string) error {
	instead := "status --watch, ps and queue print the same as text"
	in, hasFile := p.in.(interface{ Fd() uintptr })
	switch {
	case len(args) > 0:
		return wrongUsage("top: takes no arguments, got %q", args)
	case p.json():
		return wrongUsage("top: shows a view, no JSON; %s", instead)
	case !p.terminal || p.bare == nil || !hasFile || !term.IsTerminal(int(in.Fd())):
		return wrongUsage("top: needs a terminal to show its view, and to read keys from; %s", instead)
	case slices.Contains([]string{"", "dumb"}, p.variable("TERM")):
		return wrongUsage("top: the terminal can only print lines (TERM=%s); %s", p.variable("TERM"), instead)
	}
	return nil
}

// live shows the view until the person leaves it.
func (p *program) live(ctx context.Context, first *client, interval time.Duration) error {
	quiet := *p // nothing else may write to the terminal meanwhile
	quiet.err = io.Discard
	quiet.log = &logging.Log{Logger: slog.New(slog.DiscardHandler)}
	source := &topSource{p: &quiet, link: newLasting(&quiet, first)}
	defer source.link.close()
	what := "worker at "
	if p.config.master {
		what = "master at "
	}
	err := live.Run(ctx, live.Config{
		Source: source, Daemon: what + p.config.address(), Master: p.config.master, Interval: interval,
		Now: p.now, Location: p.location, Colour: p.coloured(), In: p.in, Out: p.bare, Environ: p.environ,
	})
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("top has ended, as --timeout %v wants it", p.config.timeout)
	}
	return why(ctx, err)
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/conf"
)

// journal is the commands that read journals: from a worker's folder, through the worker, or through a master
// from all its workers.
func (p *program) journal() *ffcli.Command {
	c := command("journal", "journal COMMAND [--journal DIR]", "read the journal of a worker, from its folder or through it; with --master those of all workers", nil)
	c.Subcommands = []*ffcli.Command{
		p.journalLog(), p.journalShow(), p.journalState(), p.journalConflicts(), p.journalStats(), p.journalTimeline(),
		p.journalExport(), p.journalVerify(), p.journalAnchor(), p.journalDiff(), p.journalReapply(),
	}
	return c
}

// journalCommand makes a command that gets the journals which the flags name.
func (p *program) journalCommand(name, arguments, help string, exec func(ctx context.Context, j *journals, args []string) error) *ffcli.Command {
	var dirs dirsFlag
	c := command(name, "journal "+name+arguments+" [--journal DIR]", help, func(ctx context.Context, args []string) error {
		if arguments == "" && len(args) > 0 {
			return wrongUsage("journal %s: takes no arguments, got %q", name, args)
		}
		return p.read(ctx, dirs, func(ctx context.Context, j *journals) error { return exec(ctx, j, args) })
	})
	c.FlagSet.Var(&dirs, "journal", "the folder of the journal, more than once for several; without it, the worker or master at --host and --port is asked")
	return c
}

// dirsFlag is a flag.Value for folders, one each time that it is given.
type dirsFlag []string

// String implements flag.Value.
func (f *dirsFlag) String() string { return "" }

// Set implements flag.Value.
func (f *dirsFlag) Set(text string) error {
	if text == "" {
		return errors.New("it must not be empty")
	}
	*f = append(*f, text)
	return nil
}

// window is the flags that narrow a command to a time.
type window struct{ since, until timeFlag }

func (p *program) windowFlags(flags *flag.FlagSet) *window {
	w := &window{timeFlag{p: p}, timeFlag{p: p}}
	flags.Var(&w.since, "since", "only from this time on: 2026-11-20 14:00, 2h (ago), or unix time")
	flags.Var(&w.until, "until", "only before this time")
	return w
}

// timeFlag is a flag.Value for a moment.
type timeFlag struct {
	p  *program
	at time.Time
}

// String implements flag.Value.
func (f *timeFlag) String() string { return "" }

// Set implements flag.Value.
func (f *timeFlag) Set(text string) (err error) {
	f.at, err = parseTime(text, f.p.now(), f.p.location)
	return err
}

// parseTime reads a moment: a date with or without a time of day, in location or as
// RFC 3339 has it; unix time; or how long before now it was.
func parseTime(text string, now time.Time, location *time.Location) (time.Time, error) {
	for _, layout := range []string{"2006-01-02 15:04", time.DateTime, time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(layout, text, location); err == nil {
			return at, nil
		}
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= 0 {
		return time.Unix(seconds, 0), nil
	}
	if ago, err := conf.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%q is not allowed; allowed is a time such as 2026-11-20 14:00 or 2026-11-20T14:00:00Z, how long ago (2h, 30d), or unix time", text)
}

// stamp prints a moment, to the microsecond as the journal has it.
func (p *program) stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.In(p.location).Format("2006-01-02 15:04:05.000000")
}

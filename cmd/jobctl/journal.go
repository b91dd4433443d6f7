package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/conf"
	"jobd/journal"
)

// journal is the commands that read a worker's journal from its folder.
func (p *program) journal() *ffcli.Command {
	c := command("journal", "journal COMMAND --journal DIR", "read a worker's journal, also while it runs", nil)
	c.Subcommands = []*ffcli.Command{p.journalLog(), p.journalShow(), p.journalState(), p.journalVerify()}
	return c
}

// journalCommand makes a command that gets a reader of the journal in --journal.
func journalCommand(name, arguments, help string, exec func(ctx context.Context, r *journal.Reader, args []string) error) *ffcli.Command {
	var dir string
	c := command(name, "journal "+name+arguments+" --journal DIR", help, func(ctx context.Context, args []string) error {
		if dir == "" {
			return wrongUsage("journal %s: needs the journal's folder, as --journal DIR", name)
		}
		r, err := journal.OpenReader(dir)
		if err != nil {
			return err
		}
		defer r.Close()
		return exec(ctx, r, args)
	})
	c.FlagSet.StringVar(&dir, "journal", "", "the folder of the journal")
	return c
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

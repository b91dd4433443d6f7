package main

import (
	"context"
	"errors"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// journal is the commands that read journals: from a worker's folder, through the worker, or
// through a master from all its workers.
func (p *program) journal() *ffcli.Command {
	c := command("journal", "journal COMMAND [--journal DIR]", "read the journal of a worker, from its folder or through it; with --master those of all workers", nil)
	c.Subcommands = []*ffcli.Command{
		p.journalLog(), p.journalShow(), p.journalState(), p.journalConflicts(), p.journalStats(),
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

// checkFirst has a command's words and flags checked before a journal is opened or anybody asked.
func checkFirst(c *ffcli.Command, check func(args []string) error) {
	run := c.Exec
	c.Exec = func(ctx context.Context, args []string) error {
		if err := check(args); err != nil {
			return err
		}
		return run(ctx, args)
	}
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

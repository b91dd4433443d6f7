package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/signals"
	"jobd/cmd/internal/version"
)

// checkAll is --check: it looks at all that the worker needs, at once, and writes a line about each. It changes nothing, takes no
// lock, and leaves no file; so it may be done beside the worker. Where the configuration has mistakes, what is right of it is looked
// at all the same.
//
// A worker that is to start again asks the same of the binary that is to follow it, and refuses where a start would end: it is the same
// process, so there would be no worker at all.
func checkAll(c config, mistakes error, stdout io.Writer) error {
	signals.Release() // whoever waits for the report may give it up
	findings := check.Configuration(c.path, c.warnings, mistakes)
	served := c.check.Served
	start := served != ""
	var parts []check.Part
	add := func(what string, possible bool, look func(context.Context) []check.Finding) {
		if possible {
			parts = append(parts, check.Part{What: what, Look: look})
		}
	}
	add("log_file", c.log.File != "", func(context.Context) []check.Finding { return check.LogFile(c.log.File) })
	add("address", c.listen.Host != "", func(ctx context.Context) []check.Finding {
		return check.Address(ctx, c.listen.Address(), served, c.running)
	})
	add("launcher", len(c.launcher.words) > 0, func(context.Context) []check.Finding { return c.checkLauncher() })
	add("journal", c.name != "", func(ctx context.Context) []check.Finding { return c.checkJournal(ctx, start) })
	add("table", c.store.possible(), c.checkTable)
	for _, address := range c.masters.addresses {
		add("master "+address, !start, func(ctx context.Context) []check.Finding { return c.checkMaster(ctx, address) })
	}
	findings = append(findings, check.Look(parts)...)
	if start {
		if _, err := fmt.Fprintln(stdout, reportHead+version.Version); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return check.Report(stdout, findings, start)
}

// reportHead is how the report begins for a worker that is to start again: with the program, and behind it its version. Another program
// of jobd's would report much the same.
const reportHead = "jobd "

// running says which process works with the journal, and so with this configuration; "": none.
func (c *config) running() string {
	dir, exists, _ := c.findJournal()
	if !exists {
		return ""
	}
	words, _ := lockHolder(dir)
	return words
}

func (c *config) checkLauncher() []check.Finding {
	if err := c.launcher.check(); err != nil {
		return []check.Finding{{Level: check.Wrong, What: "launcher", Detail: strings.TrimPrefix(err.Error(), "launcher: "), Remedy: "mend the key launcher, or what it names", Ends: true}}
	}
	return []check.Finding{{What: "launcher", Detail: c.launcher.words[0] + " can be executed in " + c.launcher.dir}}
}

package main

import (
	"context"
	"io"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
)

// checkAll is --check: see jobdaemon.Settings.Look. A worker that is to start again asks the same
// of the binary that will follow it, and refuses where a start would end: it is the same process,
// so there would be no worker at all.
func checkAll(c config, mistakes error, stdout io.Writer) error {
	start := c.Check.Served != ""
	var parts []check.Part
	add := func(what string, possible bool, look func(context.Context) []check.Finding) {
		if possible {
			parts = append(parts, check.Part{What: what, Look: look})
		}
	}
	add("launcher", len(c.launcher.words) > 0, func(ctx context.Context) []check.Finding { return c.findLaunchers(ctx, start) })
	add("targets", len(c.sections) > 0, func(context.Context) []check.Finding { return c.findTerms() })
	add("use_columns", c.time.uses.Any(), func(context.Context) []check.Finding { return c.findTime() })
	add("journal", c.name != "", func(ctx context.Context) []check.Finding { return c.checkJournal(ctx, start) })
	add("table", c.store.possible(), c.checkTable)
	for _, address := range c.masters.addresses {
		add("master "+address, !start && !conf.Unread(c.Listen.Password), func(ctx context.Context) []check.Finding { return c.checkMaster(ctx, address) })
	}
	return c.Look(program, mistakes, c.running, parts, stdout)
}

// running says which process works with the journal, and so with this configuration; "": none.
func (c *config) running() string {
	dir, exists, _ := c.findJournal()
	if !exists {
		return ""
	}
	words, _ := lockHolder(dir)
	return words
}

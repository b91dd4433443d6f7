package main

import (
	"context"
	"io"
	"strings"

	"jobd/cmd/internal/check"
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
	add("launcher", len(c.launcher.words) > 0, func(context.Context) []check.Finding { return c.checkLauncher() })
	add("journal", c.name != "", func(ctx context.Context) []check.Finding { return c.checkJournal(ctx, start) })
	add("table", c.store.possible(), c.checkTable)
	for _, address := range c.masters.addresses {
		add("master "+address, !start, func(ctx context.Context) []check.Finding { return c.checkMaster(ctx, address) })
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

func (c *config) checkLauncher() []check.Finding {
	if err := c.launcher.check(); err != nil {
		return []check.Finding{{Level: check.Wrong, What: "launcher", Detail: strings.TrimPrefix(err.Error(), "launcher: "), Remedy: "mend the key launcher, or what it names", Ends: true}}
	}
	return []check.Finding{{What: "launcher", Detail: c.launcher.words[0] + " can be executed in " + c.launcher.dir}}
}

package main

import (
	"context"
	"io"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/signals"
)

// checkAll is --check: it looks at all that the master needs, and writes a line about each. It changes nothing.
func checkAll(c config, mistakes error, stdout io.Writer) error {
	signals.Release() // whoever waits for the report may give it up
	findings := check.Configuration(c.path, c.warnings, mistakes)
	parts := []check.Part{{What: "log_file", Look: func(context.Context) []check.Finding { return check.LogFile(c.log.File) }}}
	if c.listen.Host != "" {
		parts = append(parts, check.Part{What: "address", Look: func(ctx context.Context) []check.Finding {
			return check.Address(ctx, c.listen.Address(), "", func() string { return "" })
		}})
	}
	return check.Report(stdout, append(findings, check.Look(parts)...), false)
}

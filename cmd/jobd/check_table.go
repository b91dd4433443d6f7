package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/sqlite"
)

// possible tells whether there is enough to look for the table.
func (c *storeConfig) possible() bool {
	if c.kind == storeSQLite {
		return c.sqlitePath != ""
	}
	return c.kind == storeMySQL && !conf.Unread(c.mysql.Password) && c.mysql.Host != "" && c.mysql.User != "" && c.mysql.Database != ""
}

// dialLimit is how long the database may take to answer at all, below the limit of the report.
const dialLimit = 4 * time.Second

// checkTable looks at the table and its server.
func (c *config) checkTable(ctx context.Context) []check.Finding {
	targets := slices.Sorted(maps.Keys(c.targets))
	if c.store.kind == storeSQLite {
		findings, isNew, err := sqlite.Glance(ctx, c.store.sqliteConfig(), targets)
		fine := "it has what a worker needs"
		if isNew {
			fine = "it will be made"
		}
		return tableFindings("table "+c.store.mysql.Table+" in "+c.store.sqlitePath, fine, findings, err)
	}
	config := c.store.mysql
	config.Logger = slog.New(slog.DiscardHandler)
	config.ConnectTimeout, config.ReadTimeout, config.WriteTimeout = dialLimit, dialLimit, dialLimit
	what := "table " + config.Table + " on " + config.Host
	table, err := mysql.New(config)
	if err != nil {
		return tableFindings(what, "", nil, err)
	}
	defer table.Close()
	findings, err := table.Findings(ctx, targets)
	return tableFindings(what, "it has what a worker needs", findings, err)
}

// tableFindings are the findings about a table, or that it is fine. Where there are some, an error is among
// them. A server that can't be reached does not end a start.
func tableFindings(what, fine string, found []store.Finding, err error) []check.Finding {
	var findings []check.Finding
	for _, f := range found {
		finding := check.Finding{Level: check.Warning, What: f.Where, Detail: f.What, Remedy: f.Remedy}
		if f.Severity == store.Fault {
			finding.Level, finding.Ends = check.Wrong, true
		}
		findings = append(findings, finding)
	}
	var unusable *store.Unusable
	switch {
	case len(found) > 0:
	case err == nil:
		findings = append(findings, check.Finding{What: what, Detail: fine})
	case errors.As(err, &unusable):
		findings = append(findings, check.Finding{Level: check.Wrong, What: what, Detail: err.Error(), Ends: true})
	default:
		findings = append(findings, check.Finding{
			Level: check.Wrong, What: what, Detail: "it can't be reached: " + err.Error(),
			Remedy: "start the server, or mend the keys mysql_host and mysql_port; until then nothing is claimed",
		})
	}
	return findings
}

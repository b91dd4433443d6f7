package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	jobdaemon "jobd/cmd/internal/daemon"
	jobexec "jobd/exec"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/sqlite"
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
	add("launcher", len(c.launcher.words) > 0, func(context.Context) []check.Finding { return c.findLaunchers(start) })
	add("journal", c.name != "", func(ctx context.Context) []check.Finding { return c.checkJournal(ctx, start) })
	add("table", c.store.possible(), c.checkTable)
	add("gearman_listen", c.gearman.listen.On(), func(context.Context) []check.Finding {
		return c.Check.HTTP("gearman_listen", c.gearman.listen, c.running)
	})
	for _, address := range c.masters.addresses {
		add("master "+address, !start && !conf.Unread(c.Listen.Password), func(ctx context.Context) []check.Finding { return c.checkMaster(ctx, address) })
	}
	return c.Look(program, mistakes, c.running, parts, stdout)
}

// running says which process works with the journal, and so with this configuration; "": none.
func (c *config) running() string {
	dir, exists, _ := jobdaemon.FindJournal(c.journal.candidates(c.name, os.Getenv))
	if !exists {
		return ""
	}
	words, _ := jobdaemon.JournalHolder(dir)
	return words
}

// checkJournal looks at the journal as a start would find it. If start is set, a worker asks that will
// start again, and that has the journal now.
func (c *config) checkJournal(ctx context.Context, start bool) []check.Finding {
	var held func(what string, pid int) []check.Finding
	if start {
		held = isParents
	}
	return c.journal.Look(ctx, c.journal.candidates(c.name, os.Getenv), held)
}

// isParents finds fault with a journal that another process has than the one that asks.
func isParents(what string, pid int) []check.Finding {
	if pid == os.Getppid() {
		return nil
	}
	return []check.Finding{{
		Level: check.Wrong, What: what, Detail: "it is not the running worker's journal: a restart would lose track of its jobs",
		Remedy: "leave journal_dir as it was, or stop the worker and start it", Ends: true,
	}}
}

// findLaunchers looks at the common launcher, and at those of targets. Nobody is connected to: a service that is not
// there holds up nothing but the jobs that need it.
func (c *config) findLaunchers(start bool) []check.Finding {
	var findings []check.Finding
	for what, launcher := range c.launchers() {
		switch _, _, wrong := parseService(launcher.Words); {
		case launcher.Mode == jobexec.ModeGearman:
			findings = append(findings, check.Finding{What: what, Detail: "jobs are run by the Gearman workers that connect"})
		case launcher.Mode.Requests():
			findings = append(findings, check.Finding{What: what, Detail: "jobs are requests to " + serviceInWords(launcher.Mode)})
		case wrong != nil || len(launcher.Words) == 0: // the configuration has said so, without a password that may stand in it
		default:
			findings = append(findings, findLauncher(what, launcher, start))
		}
	}
	return findings
}

// findLauncher looks at a command. A check that somebody makes may lack what the worker has.
func findLauncher(what string, launcher jobexec.Launcher, start bool) check.Finding {
	if why, remedy := lacksRights(launcher); why != "" {
		f := check.Finding{Level: check.Warning, What: what, Detail: why, Remedy: remedy, Ends: true}
		if start {
			f.Level = check.Wrong
		}
		return f
	}
	if err := launcher.Check(); err != nil {
		return check.Finding{Level: check.Wrong, What: what, Detail: "it can't be executed: " + err.Error(), Remedy: "mend the key launcher, or what it names", Ends: true}
	}
	detail := launcher.Words[0] + " can be executed in " + launcher.Dir
	if launcher.Mode.Pooled() {
		detail += "; launcher_mode is " + string(launcher.Mode) + ", which only a start can try"
	}
	return check.Finding{What: what, Detail: detail}
}

// checkMaster looks whether a master answers and takes the worker's password. It registers nobody, which every master
// refuses.
func (c *config) checkMaster(ctx context.Context, address string) []check.Finding {
	f := check.Finding{Level: check.Wrong, What: "master " + address}
	err := c.askMaster(ctx, address)
	var said *jobnet.RemoteError
	switch code := jobnet.CodeOf(err); {
	case code == jobnet.CodePassword:
		f.Detail, f.Remedy = "it refuses this worker's password", "give the same in the key password of both, or, here, a token of the master's principals_file"
	case code == jobnet.CodeForbidden:
		f.Level, f.Detail, f.Remedy = check.Warning, "it knows this credential, but not as a worker's", "give it a line of scope worker in the master's principals_file"
	case code == jobnet.CodeUnknown:
		f.Detail, f.Remedy = "it is not a master", "mend master_host and master_port: a master has port 7081 unless it is told otherwise; or master_unix"
	case (err == nil || errors.As(err, &said)) && c.Listen.Password == "" && c.masters.tls.Own.Cert == "":
		f.Level, f.Detail = check.OK, "answers without a password"
	case err == nil || errors.As(err, &said):
		f.Level, f.Detail = check.OK, "answers, and takes this credential for a worker's; only a registration shows whether name and targets are right"
	default:
		f.Detail = "it can't be reached: " + err.Error()
		f.Remedy = "start it, or mend master_host, master_port, master_unix and the keys of master_tls; the worker runs without it, and is not poked"
	}
	return []check.Finding{f}
}

func (c *config) askMaster(ctx context.Context, address string) error {
	link, err := jobnet.Connect(ctx, address, jobnet.LinkConfig{Password: c.Listen.Password, TLS: c.masters.tls.For(hostOf(address)), Codes: true})
	if err != nil {
		return err
	}
	defer link.Close()
	go func() { _ = link.Run(ctx) }()
	_, err = link.Request(ctx, api.Register.Name, nil)
	return err
}

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

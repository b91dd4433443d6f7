package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	jobdaemon "jobd/cmd/internal/daemon"
	jobexec "jobd/exec"
	jobnet "jobd/net"
	"jobd/net/api"
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
	add("use_columns", c.time.uses.Any(), func(context.Context) []check.Finding { return c.findTime() })
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

// findLaunchers looks at the common launcher, and at those of targets. At a start nobody is
// connected to: a service that is not there holds up nothing but the jobs that need it.
func (c *config) findLaunchers(ctx context.Context, start bool) []check.Finding {
	var findings []check.Finding
	for what, launcher := range c.launchers() {
		switch _, _, wrong := parseService(launcher.Words); {
		case launcher.Mode.Requests():
			findings = append(findings, findService(ctx, what, launcher.Service, start))
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

// findService connects to a service, and asks it for nothing.
func findService(ctx context.Context, what string, service jobexec.Service, start bool) check.Finding {
	network, address, host := addressOf(service)
	if service.Mode == jobexec.ModeGearman {
		return check.Finding{What: what, Detail: "jobs are run by the Gearman workers that connect"}
	}
	if start {
		return check.Finding{What: what, Detail: "jobs are requests to " + address}
	}
	f := check.Finding{What: what, Detail: address + " takes connections"}
	if err := connect(ctx, network, address, host); err != nil {
		f.Level, f.Detail = check.Warning, address+" can't be reached: "+jobnet.DialCause(err).Error()
		f.Remedy = "start it, or mend the key launcher; no job that needs it is claimed meanwhile"
	}
	return f
}

// addressOf is where a service takes connections, and whose certificate it is to show; "": none.
func addressOf(service jobexec.Service) (network, address, host string) {
	if service.Mode == jobexec.ModeFastCGI {
		if strings.HasPrefix(service.Address, "/") {
			return "unix", service.Address, ""
		}
		return "tcp", service.Address, ""
	}
	at, err := url.Parse(strings.ReplaceAll(service.URL, "{id}", "1"))
	if err != nil {
		return "tcp", "", "" // parseHTTP has refused it
	}
	port := map[string]string{"http": "80", "https": "443"}[at.Scheme]
	if at.Scheme == "https" {
		host = at.Hostname()
	}
	return "tcp", net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), port)), host
}

// connect makes a connection, with TLS where a host is named, and ends it.
func connect(ctx context.Context, network, address, host string) error {
	connection, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	defer connection.Close()
	if host == "" {
		return nil
	}
	return tls.Client(connection, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}).HandshakeContext(ctx)
}

// checkMaster looks whether a master answers and takes the worker's password. It does not register.
func (c *config) checkMaster(ctx context.Context, address string) []check.Finding {
	f := check.Finding{What: "master " + address, Detail: "answers, and takes the password"}
	if c.Listen.Password == "" {
		f.Detail = "answers without a password"
	}
	switch err := c.askMaster(ctx, address); {
	case err == nil:
	case errors.Is(err, errPassword):
		f.Level, f.Detail, f.Remedy = check.Wrong, "it refuses this worker's password", "give the same in the key password of both, or, here, a token of the master's principals_file"
		if own := c.masters.tls.Own; c.masters.tls.On && own.Cert != "" {
			if _, err := own.Usable(); err != nil {
				f.Detail += ", and is not shown its certificate: " + err.Error()
			}
		}
	case errors.Is(err, errNoWorker):
		f.Level, f.Detail, f.Remedy = check.Warning, "it knows this credential, but not as a worker's", "give it a line of scope worker in the master's principals_file"
	case errors.Is(err, errScope):
		f.Detail = "answers, and takes this credential for a worker's; only a registration tells whether name and targets are right"
	case strings.Contains(err.Error(), "first record does not look like a TLS handshake"):
		f.Level, f.Detail, f.Remedy = check.Wrong, "it speaks no TLS: it is of an older version, or has no certificate", "give it tls_cert and tls_key, or set master_tls = off"
	case strings.Contains(err.Error(), "TLS"):
		f.Level, f.Detail, f.Remedy = check.Wrong, "it can't be reached: "+err.Error(), "mend master_tls, master_tls_ca or master_tls_name"
	case errors.Is(err, errNoMaster):
		f.Level, f.Detail, f.Remedy = check.Wrong, "it is not a master", "mend master_host and master_port: a master has port 7081 unless it is told otherwise; or master_unix"
	default:
		f.Level, f.Detail, f.Remedy = check.Wrong, "it can't be reached: "+err.Error(), "start it, or mend master_host and master_port, or master_unix; the worker runs without it, and is not poked"
	}
	return []check.Finding{f}
}

// What a peer that answers may be wrong with.
var (
	errPassword = errors.New("invalid password")
	errNoMaster = errors.New("no master")
	errNoWorker = errors.New("no worker")
	errScope    = errors.New("it is for workers alone") // nothing is wrong
)

func (c *config) askMaster(ctx context.Context, address string) error {
	link, err := jobnet.Connect(ctx, address, jobnet.LinkConfig{Password: c.Listen.Password, TLS: c.masters.tls.For(hostOf(address)), Codes: true})
	if err != nil {
		return err
	}
	defer link.Close()
	go func() { _ = link.Run(ctx) }()
	data, err := link.Request(ctx, "status", nil) // has no effect
	var answer *jobnet.RemoteError
	_, registered := link.Request(ctx, api.Register.Name, nil) // a registration of nobody, which has no effect either
	switch {
	case jobnet.CodeOf(registered) == jobnet.CodeForbidden:
		return errNoWorker
	case err != nil && jobnet.CodeOf(err) == jobnet.CodeForbidden && jobnet.CodeOf(registered) == jobnet.CodeUnknown:
		return errNoMaster
	case err != nil && jobnet.CodeOf(err) == jobnet.CodeForbidden:
		return errScope
	case errors.As(err, &answer) && strings.Contains(answer.Text, errPassword.Error()):
		return errPassword
	case errors.As(err, &answer), err == nil && !jobnet.FieldsOf(data).Has("workers"):
		return errNoMaster
	}
	return err
}

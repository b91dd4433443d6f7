package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"jobd/cmd/internal/check"
	jobexec "jobd/exec"
)

// findLaunchers looks at the common launcher, and at those of targets. At a start nobody is
// connected to: a service that is not there holds up nothing but the jobs that need it.
func (c *config) findLaunchers(ctx context.Context, start bool) []check.Finding {
	var findings []check.Finding
	look := func(what string, launcher jobexec.Launcher, err error) {
		switch _, _, wrong := parseService(launcher.Words); {
		case launcher.Mode.Requests():
			findings = append(findings, findService(ctx, what, launcher.Service, start))
		case wrong != nil: // the configuration has said so, without a password that may stand in it
		default:
			findings = append(findings, findLauncher(what, launcher, err))
		}
	}
	look("launcher", c.launcher.launcher(), c.launcher.check())
	for _, name := range slices.Sorted(maps.Keys(c.sections)) {
		if t := c.sections[name]; t.terms.Launcher != nil && len(t.terms.Launcher.Words) > 0 {
			look("launcher of "+t.section.String(), *t.terms.Launcher, t.checkLauncher())
		}
	}
	return findings
}

func findLauncher(what string, launcher jobexec.Launcher, err error) check.Finding {
	if err != nil {
		return check.Finding{Level: check.Wrong, What: what, Detail: strings.TrimPrefix(err.Error(), what+": "), Remedy: "mend the key launcher, or what it names", Ends: true}
	}
	detail := launcher.Words[0] + " can be executed in " + launcher.Dir
	without := "each job fails without it"
	if launcher.Mode.Kept() {
		detail += "; launcher_mode is " + string(launcher.Mode) + ", which only a start can try"
		without = "no process gets ready without it"
	}
	if missing := lacks(launcher); missing != "" {
		return check.Finding{
			Level: check.Warning, What: what, Detail: missing,
			Remedy: "mend the key launcher, if that is its script: " + without,
		}
	}
	return check.Finding{What: what, Detail: detail}
}

// findService connects to a service, and asks it for nothing.
func findService(ctx context.Context, what string, service jobexec.Service, start bool) check.Finding {
	network, address, host := addressOf(service)
	if start {
		return check.Finding{What: what, Detail: "jobs are requests to " + address}
	}
	f := check.Finding{What: what, Detail: address + " takes connections"}
	if err := connect(ctx, network, address, host); err != nil {
		f.Level, f.Detail = check.Warning, address+" can't be reached: "+shortly(err)
		f.Remedy = "start it, or mend the key launcher; no job that needs it is claimed meanwhile"
	} else if missing := lacks(jobexec.Launcher{Service: service}); missing != "" {
		f.Level, f.Detail, f.Remedy = check.Warning, missing, "mend the key launcher: each job fails for good without it"
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

// shortly is an error without the address, which stands before it.
func shortly(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		err = op.Err
	}
	return strings.TrimPrefix(err.Error(), "connect: ")
}

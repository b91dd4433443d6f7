package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"

	"jobd/cmd/internal/operator"
)

// queryTimeout is how long a daemon may take for an answer, where no --timeout says how long the
// whole run may take.
const queryTimeout = 10 * time.Second

// daemon is the worker or master that this run is about. A password is asked for once.
func (p *program) daemon() (*operator.Daemon, error) {
	if p.asked != nil {
		return p.asked, nil
	}
	if p.config.askPassword {
		var err error
		if p.config.password, err = p.password(); err != nil {
			return nil, err
		}
	}
	patience := queryTimeout
	switch {
	case p.set.Given("timeout"): // the whole run has a limit, or none was wanted
		patience = 0
	case p.surroundings.patience > 0:
		patience = p.surroundings.patience
	}
	p.asked = operator.New(operator.Config{
		Address: p.config.address(), Master: p.config.master, Password: p.config.password,
		Patience: patience, Logger: p.log.Logger,
	})
	return p.asked, nil
}

// hangUp ends the link to it.
func (p *program) hangUp() {
	if p.asked != nil {
		p.asked.Close()
	}
}

// linked has the daemon used.
func (p *program) linked(ctx context.Context, use func(ctx context.Context, d *operator.Daemon) error) error {
	d, err := p.daemon()
	if err != nil {
		return err
	}
	return use(ctx, d)
}

// askFor sends a request to the daemon and decodes its answer, which it prints as it came if the
// output is to be JSON.
func (p *program) askFor(ctx context.Context, typ string, data, into any) error {
	d, err := p.daemon()
	if err != nil {
		return err
	}
	answer, err := d.Ask(ctx, typ, data)
	if err != nil {
		return err
	}
	if p.json() {
		if _, err := fmt.Fprintf(p.out, "%s\n", answer); err != nil {
			return err
		}
	}
	return d.Understand(typ, answer, into)
}

// json tells whether the answer's data is the output.
func (p *program) json() bool { return p.config.output == "json" }

// password asks for the password: without echo on a terminal, else it is the first line of stdin.
func (p *program) password() (string, error) {
	if file, ok := p.in.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprint(p.err, "Password: ")
		password, err := term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(p.err)
		if err != nil {
			return "", fmt.Errorf("read password: %w", err)
		}
		return string(password), nil
	}
	line, err := bufio.NewReader(p.in).ReadString('\n')
	if err != nil && (err != io.EOF || line == "") {
		return "", fmt.Errorf("read password from stdin: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// onlyWorker and onlyMaster refuse a command that the other daemon answers.
func (p *program) onlyWorker(name string) error {
	if p.config.master {
		return wrongUsage("%s: only a worker knows this; leave --master away", name)
	}
	return nil
}

func (p *program) onlyMaster(name, instead string) error {
	if !p.config.master {
		return wrongUsage("%s: only a master knows this; use --master, or %s for a worker", name, instead)
	}
	return nil
}

// silentWorkers names the workers that did not answer their master.
func silentWorkers(s masterStatus) []error {
	var failed []error
	for _, worker := range s.Workers {
		if worker.StatusError != "" {
			failed = append(failed, fmt.Errorf("worker '%s': %s", clean(worker.Name), clean(worker.StatusError)))
		}
	}
	return failed
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"

	"jobd/cmd/internal/exit"
	jobnet "jobd/net"
)

// What an operator's own daemon may answer: the outputs of many jobs at once, over a slow link.
const (
	maxAnswer     = 1 << 30
	answerTimeout = time.Hour
)

// passwordRefused is what every daemon says to a client without the right password.
const passwordRefused = "invalid password"

// client is a link to the daemon, over which any number of requests may go.
type client struct {
	address string
	link    *jobnet.Link
	secret  bool // a password was sent
}

// linked connects to the daemon, and has the link used.
func (p *program) linked(ctx context.Context, use func(ctx context.Context, c *client) error) error {
	if p.config.askPassword {
		password, err := p.password()
		if err != nil {
			return err
		}
		p.config.password, p.config.askPassword = password, false // it is asked for once
	}
	c, end, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer end()
	return use(ctx, c)
}

// connect connects to the daemon. The caller ends the link.
func (p *program) connect(ctx context.Context) (c *client, end func(), err error) {
	password := p.config.password
	link, err := jobnet.Connect(ctx, p.config.address(), jobnet.LinkConfig{
		Password: password, MaxMessageSize: maxAnswer, FrameTimeout: answerTimeout, Logger: p.log.Logger,
	})
	if err != nil {
		return nil, nil, exit.With(exit.Connect, why(ctx, err))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = link.Run(context.WithoutCancel(ctx)) // the request tells why the link ended
	}()
	end = func() {
		link.Close()
		<-ended
	}
	return &client{address: p.config.address(), link: link, secret: password != ""}, end, nil
}

// ask sends a request and gives the data of its answer.
func (c *client) ask(ctx context.Context, typ string, data any) (json.RawMessage, error) {
	answer, err := c.link.Request(ctx, typ, data)
	var remote *jobnet.RemoteError
	switch {
	case errors.As(err, &remote) && remote.Text == passwordRefused && !c.secret:
		return nil, fmt.Errorf("%s: a password is needed; give it in ~/.jobctl.conf, as JOBCTL_PASSWORD or with --password", c.address)
	case errors.As(err, &remote):
		return nil, fmt.Errorf("%s: %w", c.address, err)
	case err != nil:
		return nil, why(ctx, err)
	}
	return answer, nil
}

// askInto asks and decodes the answer's data.
func (c *client) askInto(ctx context.Context, typ string, data, into any) error {
	answer, err := c.ask(ctx, typ, data)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s: answer to %s is not understood: %w", c.address, typ, err)
	}
	return nil
}

// ask sends one request to the daemon and gives the data of its answer, which it
// prints if the output is to be JSON.
func (p *program) ask(ctx context.Context, typ string, data any) (answer json.RawMessage, err error) {
	err = p.linked(ctx, func(ctx context.Context, c *client) error {
		if answer, err = c.ask(ctx, typ, data); err != nil || !p.json() {
			return err
		}
		_, err = fmt.Fprintf(p.out, "%s\n", answer)
		return err
	})
	return answer, err
}

// askInto asks and decodes the answer's data.
func (p *program) askInto(ctx context.Context, typ string, data, into any) error {
	answer, err := p.ask(ctx, typ, data)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s: answer to %s is not understood: %w", p.config.address(), typ, err)
	}
	return nil
}

// json tells whether the answer's data is the output.
func (p *program) json() bool { return p.config.output == "json" }

// why puts the reason for a context's end in place of the end. Of no error it says nothing.
func why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

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

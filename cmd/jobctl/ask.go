package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/term"

	"jobd/cmd/internal/exit"
	jobnet "jobd/net"
	"jobd/net/api"
)

// errNoPassword is the error of a run that gave no password to a daemon that wants one.
var errNoPassword = errors.New("a password is needed; give it in ~/.jobctl.conf, as JOBCTL_PASSWORD or with --password")

// isPassword tells whether the daemon answered nothing for want of the right password.
func isPassword(err error) bool {
	return errors.Is(err, errNoPassword) || jobnet.CodeOf(err) == jobnet.CodePassword
}

// client is a link to the daemon, over which any number of requests may go.
type client struct {
	address  string
	link     *jobnet.Link
	bounds   *bounded
	secret   bool          // a password was sent
	master   bool          // a master is to be at the other end
	patience time.Duration // with each answer; 0: no limit, or one for the whole run
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
	c = &client{address: p.config.address(), secret: p.config.password != "", master: p.config.master, patience: p.patience()}
	dialing, cancel := c.within(ctx, c.patience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(dialing, "tcp", c.address)
	if err != nil {
		return nil, nil, couldNotConnect(ctx, fmt.Errorf("connect to %s: %w", c.address, why(dialing, err)))
	}
	c.bounds = bound(conn)
	c.link = jobnet.NewLink(c.bounds, jobnet.LinkConfig{
		Password: p.config.password, MaxMessageSize: maxAnswer, FrameTimeout: answerTimeout, Logger: p.log.Logger,
		Codes: true,
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.link.Run(context.WithoutCancel(ctx)) // the request tells why the link ended
	}()
	end = func() {
		c.link.Close()
		<-ended
	}
	return c, end, nil
}

// couldNotConnect gives an error its exit code, unless it was somebody's wish that the run ends.
func couldNotConnect(ctx context.Context, err error) error {
	if interrupted(ctx) {
		return why(ctx, err)
	}
	return exit.With(exit.Connect, err)
}

// ask sends a request and gives the data of its answer. The status of another daemon than the one
// that was meant is an error.
func (c *client) ask(ctx context.Context, typ string, data any) (json.RawMessage, error) {
	patience := c.patienceWith(typ)
	asking, cancel := c.within(ctx, patience)
	defer cancel()
	c.bounds.allow(answerLimit(typ))
	diagnosis := c.diagnose(asking, patience)
	answer, err := c.link.Request(asking, typ, data)
	var remote *jobnet.RemoteError
	switch {
	case err == nil && typ == api.Status.Name:
		return answer, c.isWhat(answer)
	case err == nil:
		return answer, nil
	case errors.As(err, &remote) && isPassword(err) && !c.secret:
		return nil, fmt.Errorf("%s: %w", c.address, errNoPassword)
	case errors.As(err, &remote):
		return nil, c.refused(remote)
	case errors.Is(context.Cause(asking), errSilent):
		return nil, &unanswered{typ, &because{fmt.Errorf("%s: %w within %v%s", c.address, errSilent, patience, <-diagnosis), err}}
	}
	if tooLong := c.bounds.failure(); tooLong != nil {
		return nil, &unanswered{typ, &because{fmt.Errorf("%s: %w", c.address, tooLong), err}}
	}
	return nil, &unanswered{typ, why(ctx, err)}
}

// unanswered is why a request has no answer. Unless ErrUnsent is among the causes, the daemon may
// have done what it was asked for.
type unanswered struct {
	typ string
	err error
}

// Error implements error.
func (u *unanswered) Error() string { return u.err.Error() }

// Unwrap gives the cause.
func (u *unanswered) Unwrap() error { return u.err }

// leftOpen tells whether err leaves open what became of a request of this type.
func leftOpen(err error, typ string) bool {
	var u *unanswered
	return errors.As(err, &u) && u.typ == typ && !errors.Is(err, jobnet.ErrUnsent)
}

// mostLines is how many lines of a peer's error are told.
const mostLines = 100

// refused is what the daemon said instead of an answer. Each line of it names the daemon: none can
// pass for jobctl's own.
func (c *client) refused(said *jobnet.RemoteError) error {
	var lines []error
	for line := range strings.SplitSeq(strings.TrimRight(said.Text, "\n"), "\n") {
		if len(lines) == mostLines {
			lines = append(lines, fmt.Errorf("%s: …", c.address))
			break
		}
		lines = append(lines, fmt.Errorf("%s: %w", c.address, &jobnet.RemoteError{Text: clean(line), Code: jobnet.CodeOf(said)}))
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return errors.Join(lines...)
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
		if typ != api.Status.Name {
			err = c.expect(ctx)
		}
		if err == nil {
			answer, err = c.ask(ctx, typ, data)
		}
		if err != nil || !p.json() {
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

// askFor sends a request of package api, and prints its answer as ask does.
func askFor[Q, A any](ctx context.Context, p *program, r api.Request[Q, A], query Q) (answer A, err error) {
	err = p.askInto(ctx, r.Name, query, &answer)
	return answer, err
}

// json tells whether the answer's data is the output.
func (p *program) json() bool { return p.config.output == "json" }

// why puts the reason for a context's end before the end; somebody's wish that the run ends in
// place of it. Of no error it says nothing.
func why(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	var by interruption
	switch {
	case err == nil || cause == nil || errors.Is(err, cause):
		return err
	case errors.As(cause, &by):
		return &because{cause, err}
	}
	return fmt.Errorf("%w: %w", cause, err)
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

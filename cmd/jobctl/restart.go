package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/exit"
	jobnet "jobd/net"
	"jobd/net/api"
)

// How long a worker may take to serve again, where --timeout says nothing, and how it is asked
// meanwhile.
const (
	restartLimit = time.Minute
	restartLook  = 100 * time.Millisecond // between two looks
	restartPeer  = 5 * time.Second        // for one look
)

func (p *program) restart() *ffcli.Command {
	return command("restart", "restart", "worker: start again, with the binary that is installed by now; what runs goes on", func(ctx context.Context, args []string) error {
		if err := p.onlyWorker("restart"); err != nil {
			return err
		}
		if len(args) != 0 {
			return wrongUsage("restart: takes no arguments, got %q", args)
		}
		return p.startAgain(ctx)
	})
}

// process tells a worker's run from those before and after it.
type process struct {
	PID     int    `json:"pid"`
	Started int64  `json:"startedAt"`
	Version string `json:"version"`
}

// startAgain asks a worker to start again, and waits until the new process serves. The worker says
// no while nothing is lost yet. After its yes the link ends, and may end before the yes is here:
// then only the worker's next run can tell.
func (p *program) startAgain(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(p.config.timeout, restartLimit), errors.New("the worker has not served again in time"))
	defer cancel()
	var before, after process
	var answer api.Restarted
	err := p.linked(ctx, func(ctx context.Context, c *client) (err error) {
		if err := c.askInto(ctx, api.Status.Name, nil, &before); err != nil {
			return err
		}
		return c.askInto(ctx, api.Restart.Name, api.Restarting{Next: true}, &answer)
	})
	lost := errors.Is(err, jobnet.ErrLinkClosed) && !errors.Is(err, jobnet.ErrUnsent)
	if err != nil && !lost {
		return err
	}
	if before.Started == 0 {
		return errors.Join(err, p.restarted(before, "ok: the worker is an older one and does not tell when it serves again"))
	}
	if answer.Next != nil { // else it is where it was
		if err := p.goTo(answer.Next.Address); err != nil {
			return err
		}
	}
	if after, err = p.awaitNext(ctx, before); err != nil {
		return err
	}
	return p.restarted(after, fmt.Sprintf("ok: process %d serves again, version %s, at %s", after.PID, clean(after.Version), p.config.address()))
}

func (p *program) restarted(now process, words string) (err error) {
	if !p.json() {
		_, err = fmt.Fprintln(p.out, words)
		return err
	}
	return json.NewEncoder(p.out).Encode(now)
}

// goTo goes where the new process will listen. A host that is all of its addresses stays the one
// that was given.
func (p *program) goTo(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil // none was told: it is where it was
	}
	if port == "0" {
		return fmt.Errorf("the worker starts again, and listens on any free port: its log tells which, and whether it serves")
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		if old := net.ParseIP(strings.Trim(p.config.host, "[]")); ip == nil || old == nil || old.IsLoopback() == ip.IsLoopback() {
			p.config.host = host
		}
	}
	_, err = fmt.Sscan(port, &p.config.port)
	return err
}

// awaitNext looks again and again until the worker is another process, or the same one anew.
func (p *program) awaitNext(ctx context.Context, before process) (process, error) {
	again := time.NewTicker(restartLook)
	defer again.Stop()
	last := errors.New("it still is the one that was to start again")
	for {
		now, err := p.look(ctx)
		switch {
		case err == nil && (now.PID != before.PID || now.Started != before.Started):
			return now, nil
		case isPassword(err):
			return now, fmt.Errorf("the worker has started again, with another password than the one given: %w", err)
		case err != nil:
			last = err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return now, exit.With(exit.Failure, fmt.Errorf("%w; its log says why; last seen: %w", context.Cause(ctx), last))
		}
	}
}

func (p *program) look(ctx context.Context) (now process, err error) {
	ctx, cancel := context.WithTimeout(ctx, restartPeer)
	defer cancel()
	err = p.linked(ctx, func(ctx context.Context, c *client) error { return c.askInto(ctx, api.Status.Name, nil, &now) })
	return now, err
}

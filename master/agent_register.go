package master

import (
	"context"
	"errors"
	"fmt"
	"time"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// Status tells how the agent stands with its master. It is safe for concurrent use.
func (a *Agent) Status() contract.MasterStanding { return *a.state.Load() }

// registerTimeout is how long the master may take to answer a registration. It holds its answer to
// a wrong password back, for five seconds where the address has given many: whoever hangs up before
// never hears that it is the password.
const registerTimeout = 15 * time.Second

// register registers over a link.
func (a *Agent) register(ctx context.Context, link *jobnet.Link) error {
	targets := a.config.Targets()
	if len(targets) == 0 {
		return errNoTargets
	}
	data := contract.Registration{Name: a.config.Name, Targets: targets, Instance: a.instance(), Folds: a.config.Folds()}
	if _, err := requestWithin(ctx, registerTimeout, link, contract.Register.Name, data); err != nil {
		return fmt.Errorf("register with %s: %w", a.config.Address, explained(err))
	}
	a.tellRegistered(targets)
	a.note(true, nil)
	a.config.OnRegistered()
	return nil
}

// tellRegistered writes that to the log; after an outage as a warning, as the outage was, and with
// its length.
func (a *Agent) tellRegistered(targets []string) {
	if a.lost.IsZero() {
		a.config.Logger.Info("registered with the master", "targets", listed(targets))
		return
	}
	a.config.Logger.Warn("registered with the master again", "targets", listed(targets),
		"after", time.Since(a.lost).Round(time.Millisecond))
	a.lost = time.Time{}
}

// explained is why a registration failed, with what an operator can do about it.
func explained(err error) error {
	var refused *jobnet.RemoteError
	var silent *noAnswerError
	hint := ""
	switch {
	case errors.As(err, &silent), errors.Is(err, jobnet.ErrLinkClosed):
		hint = "is it a master that listens there?"
	case !errors.As(err, &refused):
		return err
	case jobnet.CodeOf(err) == jobnet.CodePassword:
		hint = "the worker's password must be that of the master"
	case jobnet.CodeOf(err) == jobnet.CodeUnknown:
		hint = "it is no master that listens there, but perhaps a worker"
	default:
		return fmt.Errorf("the master refuses: %w", err)
	}
	return fmt.Errorf("%w: %s", err, hint)
}

// instance names the worker and this agent of it: where a master is configured under two addresses,
// the two agents must not replace each other's registration again and again.
func (a *Agent) instance() string {
	if a.config.Instance == "" {
		return ""
	}
	return a.config.Instance + " at " + a.config.Address
}

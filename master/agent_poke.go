package master

import (
	"context"
	"errors"
	"time"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// Poke has the master tell every worker that serves one of the targets, this one included, to look
// for jobs. It never blocks. What the master has not answered is told again, over the next
// connection where need be; an agent that stops makes a last attempt, and what is lost then, or
// with the process, is found when a worker registers or polls.
func (a *Agent) Poke(targets []string) {
	if forgotten := a.pokes.add(targets); forgotten > 0 {
		a.config.Logger.Warn("too many targets are to be told to the master: forgot the oldest", "forgotten", forgotten)
	}
}

// sendPokes sends the master what Poke is given, until ctx or the link ends.
func (a *Agent) sendPokes(ctx context.Context, link *jobnet.Link) {
	for {
		select {
		case <-a.pokes.nudge:
		case <-link.Done():
			return
		case <-ctx.Done():
			return
		}
		err := a.sendPending(ctx, link)
		var refused *jobnet.RemoteError
		if !errors.As(err, &refused) {
			continue
		}
		a.config.Logger.Warn("the master refused a poke, trying again", "error", err, "in", answerTimeout)
		select {
		case <-time.After(answerTimeout):
		case <-link.Done():
		case <-ctx.Done():
		}
	}
}

// sendPending sends until nothing is pending. What it did not answer stays so.
func (a *Agent) sendPending(ctx context.Context, link *jobnet.Link) error {
	for targets := a.pokes.take(); targets != nil; targets = a.pokes.take() {
		if err := pokeOver(ctx, link, targets); err != nil {
			a.Poke(targets)
			return err
		}
	}
	return nil
}

func pokeOver(ctx context.Context, link *jobnet.Link, targets []string) error {
	_, err := requestWithin(ctx, answerTimeout, link, contract.Poke.Name, contract.Targets{Targets: targets})
	return err
}

// sendLast is the last attempt of an agent that stops. It makes a connection of its own: the one
// that there may be can be dead without anybody having noticed, and there is no time to wait for an
// answer in vain.
func (a *Agent) sendLast() {
	if a.pokes.empty() || time.Until(a.end()) <= 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), a.end())
	defer cancel()
	link, leave, err := a.connect(ctx)
	if err == nil {
		defer leave()
		err = a.sendPending(ctx, link)
	}
	if err != nil {
		a.config.Logger.Warn("stopped before the master knew what other workers should look for", "error", err)
	}
}

package master

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	jobnet "jobd/net"
)

// Run connects, registers, and serves the master's requests, again and again until ctx ends. Then
// it delivers what Poke was given and lets requests under way finish, all within the DrainTimeout,
// and returns nil. A worker that serves nothing stays away from the master until it does, or has
// something to tell. Run is called once.
func (a *Agent) Run(ctx context.Context) error {
	defer a.sendLast()
	var last string // what was last logged: a master that stays away is not worth a line for every try
	for ctx.Err() == nil {
		if len(a.config.Targets()) == 0 && a.pokes.empty() {
			a.pause(ctx, nil)
			continue
		}
		registered, err := a.session(ctx)
		a.note(false, err)
		switch {
		case ctx.Err() != nil || errors.Is(err, errNoTargets):
			continue
		case registered || err.Error() != last:
			a.config.Logger.Warn("no connection to the master, trying again", "error", err, "within", a.config.ReconnectTimeout)
		}
		if registered || a.lost.IsZero() {
			a.lost = time.Now()
		}
		last = err.Error()
		a.pause(ctx, time.After(jitter(a.config.ReconnectTimeout)))
	}
	return nil
}

// jitter is a random part of a time: workers that lost their master together must not all come
// back at once.
func jitter(most time.Duration) time.Duration { return rand.N(most) }

// pause waits until ctx ends, or for the timer, or, without a timer, until the targets change or
// something is to be told.
func (a *Agent) pause(ctx context.Context, timer <-chan time.Time) {
	var changed, poked <-chan struct{}
	if timer == nil {
		changed, poked = a.changed, a.pokes.nudge
	}
	select {
	case <-ctx.Done():
	case <-timer:
	case <-changed:
	case <-poked:
		a.pokes.add(nil) // the token is for the session that follows
	}
}

// session is one connection, from its beginning to its end. It tells whether the worker was
// registered.
func (a *Agent) session(ctx context.Context) (registered bool, err error) {
	link, leave, err := a.connect(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	return a.stay(ctx, link)
}

// stay registers, and again whenever the targets change, until the link or ctx ends. Once
// registered, it tells the master what Poke is given.
func (a *Agent) stay(ctx context.Context, link *jobnet.Link) (registered bool, err error) {
	sending, stop := context.WithCancel(ctx)
	var sender sync.WaitGroup
	stopSending := func() { stop(); sender.Wait() }
	defer stopSending()
	for {
		err := a.register(ctx, link)
		switch {
		case errors.Is(err, errNoTargets):
			stopSending()
			return registered, cmp.Or(a.sendPending(ctx, link), err)
		case err != nil:
			return registered, err
		case !registered:
			registered = true
			sender.Go(func() { a.sendPokes(sending, link) })
			sender.Go(func() { a.borrow(sending, link) })
		}
		select {
		case <-a.changed:
		case <-link.Done():
			return true, link.Err()
		case <-ctx.Done():
			stopSending()
			a.drain(link)
			return true, ctx.Err()
		}
	}
}

// drain tells the master what is still to be told and lets it have the answers that it waits for.
func (a *Agent) drain(link *jobnet.Link) {
	ctx, cancel := context.WithDeadline(context.Background(), a.end())
	defer cancel()
	a.sendLast() // first: a job under way may take all the time that there is
	if err := link.Shutdown(ctx); err != nil {
		a.config.Logger.Warn("stopped before the master had all answers", "error", err)
	}
}

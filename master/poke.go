package master

import (
	"context"
	"errors"
	"log/slog"
	"time"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// poke answers poke.
func (m *Master) poke(_ context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	poked, err := contract.Poke.Read(request.Fields())
	if err != nil {
		return nil, err
	}
	var answer contract.Done
	if poked.Detail {
		wanted := selectionOf(poked.Targets)
		answer = m.detail(poked.Targets, func(p *profile) []string { return p.liked(wanted) })
	}
	m.tallies.poked.Add(uint64(len(poked.Targets)))
	if forgotten := m.pokes.add(poked.Targets); forgotten > 0 {
		m.say(slog.LevelWarn, link, tooManyPokes, "forgotten", forgotten)
	}
	return answer, nil
}

const tooManyPokes = "too many targets were poked that no worker has answered: forgot the oldest"

// deliver has every worker polled that serves something that was poked. What no worker answers
// stays in the ledger.
func (m *Master) deliver(ctx context.Context) {
	targets := m.pokes.take()
	if len(targets) == 0 {
		return
	}
	if forgotten := m.ledger.enter(targets, time.Now()); forgotten > 0 {
		m.config.Logger.Warn(tooManyPokes, "forgotten", forgotten)
	}
	poked := selectionOf(targets)
	for _, w := range m.registry.all() {
		m.poll(ctx, w, w.profile.Load().poll(poked))
	}
}

// recall has a worker polled that has just registered, for what was poked before.
func (m *Master) recall(ctx context.Context, w *worker) {
	m.poll(ctx, w, w.profile.Load().poll(m.ledger.recall(time.Now())))
}

// poll has a worker poll targets. A worker gets one poll at a time: what comes up meanwhile goes
// into the next.
func (m *Master) poll(ctx context.Context, w *worker, p poll) {
	if !w.polls.begin(p) {
		return
	}
	m.tasks.Go(func() {
		for p, ok := w.polls.next(); ok; p, ok = w.polls.next() {
			m.pollNow(ctx, w, p)
		}
	})
}

// pollNow sends one poll and waits for its answer. The context is that of Run, and the request has
// another: what was acknowledged is still delivered when the master stops.
func (m *Master) pollNow(ctx context.Context, w *worker, p poll) {
	turn := m.ledger.now()
	m.tallies.polled.Add(1)
	_, err := m.ask(context.Background(), w, contract.Poll.Name, contract.Targets{Targets: p.targets})
	var refused *jobnet.RemoteError
	switch {
	case err == nil:
		m.ledger.markAnswered(p.names(), turn, time.Now())
	case errors.Is(err, jobnet.ErrLinkClosed):
		m.registry.remove(w) // what is owed is in the ledger, for the worker that registers next
	case errors.As(err, &refused):
		m.say(slog.LevelWarn, w.link, "worker refused to poll", "worker", w.name(), "targets", listed(p.targets), "error", cut(err.Error()))
		m.pollEach(w, p)
	default:
		m.say(slog.LevelWarn, w.link, "worker did not poll", "worker", w.name(), "targets", listed(p.targets), "error", cut(err.Error()))
		m.pollAgain(ctx, w, p)
	}
}

// pollEach asks a worker that refused a list for one target after the other: it may have left one
// of them since it registered, and must not keep the others from being polled. What it refuses
// again waits for a registration.
func (m *Master) pollEach(w *worker, p poll) {
	if len(p.targets) < 2 {
		return
	}
	for one := range p.each {
		turn := m.ledger.now()
		_, err := m.ask(context.Background(), w, contract.Poll.Name, contract.Targets{Targets: one.targets})
		var refused *jobnet.RemoteError
		switch {
		case err == nil:
			m.ledger.markAnswered(one.names(), turn, time.Now())
		case !errors.As(err, &refused):
			return // it does not answer any more
		}
	}
}

// pollAgain asks a worker that did not answer once more for what no other worker has answered
// meanwhile, unless the master stops. It ends with the worker's link.
func (m *Master) pollAgain(ctx context.Context, w *worker, p poll) {
	if owed := m.ledger.owed(p.names()); ctx.Err() == nil && len(owed) > 0 {
		w.polls.begin(w.profile.Load().poll(selectionOf(owed))) // the caller calls next
	}
}

package master

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
)

// poke answers poke.
func (m *Master) poke(_ context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	poked, err := api.Poke.Read(request.From, request.Fields())
	if err != nil {
		return nil, err
	}
	var answer api.Done
	if poked.Detail {
		answer = m.detail(request.From, reached(request.From, poked.Targets))
	}
	m.tallies.poked.Add(uint64(len(poked.Targets)))
	if forgotten := m.pokes.add(poked.Targets); forgotten > 0 {
		m.say(slog.LevelWarn, link, tooManyPokes, "forgotten", forgotten)
	}
	return answer, nil
}

const tooManyPokes = "too many poked targets have no answer yet: forgot the oldest"

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
		m.poll(ctx, w, poked)
	}
}

// poll has a worker poll what it serves of the poked targets. A worker gets one poll at a time: what
// comes up meanwhile goes into the next.
func (m *Master) poll(ctx context.Context, w *worker, poked selection) {
	names := w.profile.Load().match(poked)
	if len(names) == 0 {
		return
	}
	w.polls.add(names)
	m.tasks.Go(func() {
		for !w.polls.empty() && w.polling.TryLock() { // else the goroutine that holds the lock sends them
			m.pollNow(ctx, w, w.polls.take())
			w.polling.Unlock()
		}
	})
}

// pollNow sends one poll for poked names and waits for its answer.
// The context is that of Run, and the request has another: what was acknowledged is still delivered
// when the master stops.
//
// A worker that refuses a list is asked for one name after the other: it may serve one of them no
// more since it registered, and the others are polled nevertheless. A name that it refuses again stays
// in the ledger until a worker registers. A worker that does not answer is asked again, for the names
// that no other worker has answered meanwhile, until its link ends or the master stops.
func (m *Master) pollNow(ctx context.Context, w *worker, names []string) {
	names = w.profile.Load().match(selectionOf(names))
	if len(names) == 0 {
		return
	}
	asked := time.Now()
	m.tallies.polled.Add(1)
	_, err := requestWithin(context.Background(), answerTimeout, w.link, api.Poll.Name, api.Targets{Targets: names})
	var refused *jobnet.RemoteError
	switch {
	case err == nil:
		m.ledger.settle(names, asked)
	case errors.Is(err, jobnet.ErrLinkClosed):
		m.registry.remove(w) // what is owed is in the ledger, for the worker that registers next
	case errors.As(err, &refused):
		m.say(slog.LevelWarn, w.link, "worker refused to poll", "worker", w.name(), "targets", listed(names), "error", jobnet.Excerpt(err.Error()))
		for i := 0; len(names) > 1 && i < len(names); i++ {
			m.pollNow(ctx, w, names[i:i+1])
		}
	default:
		m.say(slog.LevelWarn, w.link, "worker did not poll", "worker", w.name(), "targets", listed(names), "error", jobnet.Excerpt(err.Error()))
		if ctx.Err() == nil {
			w.polls.add(m.ledger.owed(names))
		}
	}
}

// maxRemembered is how many names of targets are kept; beyond it the oldest are forgotten.
const maxRemembered = 10_000

// gathering collects targets, each once, until somebody takes them. It is safe for concurrent use.
type gathering struct {
	nudge chan struct{} // holds a token while there may be something to take; nil: nobody is nudged

	mu   sync.Mutex
	list []string
	in   map[string]bool
}

func newGathering() *gathering { return &gathering{nudge: make(chan struct{}, 1)} }

// add never blocks. It tells how many older targets were forgotten for the new ones.
func (g *gathering) add(targets []string) (forgotten int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in == nil {
		g.in = make(map[string]bool, len(targets))
	}
	for _, target := range targets {
		if !g.in[target] {
			g.in[target] = true
			g.list = append(g.list, target)
		}
	}
	forgotten = max(0, len(g.list)-maxRemembered)
	for _, target := range g.list[:forgotten] {
		delete(g.in, target)
	}
	g.list = g.list[forgotten:]
	if len(g.list) > 0 {
		nudge(g.nudge)
	}
	return forgotten
}

// take empties the gathering; nil where it is empty.
func (g *gathering) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := g.list
	g.list, g.in = nil, nil
	return list
}

func (g *gathering) empty() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.list) == 0
}

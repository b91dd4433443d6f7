package master

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
)

// poke answers poke.
func (m *Master) poke(_ context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	poked, err := api.Poke.Read(request.Fields())
	if err != nil {
		return nil, err
	}
	var answer api.Done
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
	_, err := m.ask(context.Background(), w, api.Poll.Name, api.Targets{Targets: p.targets})
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
		_, err := m.ask(context.Background(), w, api.Poll.Name, api.Targets{Targets: one.targets})
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

// poll is what a worker is polled for.
type poll struct {
	targets []string // as the worker names them
	likes   []string // other names of theirs to the worker's table, which were poked
}

// names gives the poked names that an answer of the worker is about.
func (p poll) names() []string {
	if len(p.likes) == 0 {
		return p.targets
	}
	return slices.Concat(p.targets, p.likes)
}

// each gives the parts of the poll that are about one of its targets each.
func (p poll) each(yield func(poll) bool) {
	likes := selectionOf(p.likes)
	for _, target := range p.targets {
		if !yield(poll{targets: []string{target}, likes: likes.folded[fold(target)]}) {
			return
		}
	}
}

// pollQueue gathers what one worker is to poll. It is safe for concurrent use.
type pollQueue struct {
	mu      sync.Mutex
	targets names
	likes   names
	active  bool // somebody calls next
}

// begin queues a poll and tells whether the caller must call next until there is nothing more.
func (q *pollQueue) begin(p poll) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.targets.add(p.targets)
	q.likes.add(p.likes)
	if q.active || len(q.targets.list) == 0 {
		return false
	}
	q.active = true
	return true
}

func (q *pollQueue) next() (p poll, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p = poll{targets: q.targets.takeAll(), likes: q.likes.takeAll()}
	q.active = p.targets != nil
	return p, q.active
}

// poll gives what the worker is polled for when these targets were poked. A poke is a hint: it also
// goes to a worker whose target has a like name, since the table may take both for one; but only
// where the worker says that it does, is its answer enough.
func (p *profile) poll(poked *selection) poll {
	var served []int32
	var likes []string
	p.shared(poked, func(own []int32, names []string) {
		unserved := p.unserved(names)
		served = append(served, p.meant(own, poked, len(unserved) > 0)...)
		if p.folds {
			likes = append(likes, unserved...)
		}
	})
	slices.Sort(likes)
	return poll{targets: p.named(served), likes: likes}
}

// Names of targets are kept up to this many, and this many bytes of them; beyond it the oldest are
// forgotten.
const (
	maxRemembered      = 10_000
	maxRememberedBytes = 1 << 20
)

// gathering collects targets until somebody takes them. It is safe for concurrent use.
type gathering struct {
	nudge chan struct{} // holds a token while there may be something to take

	mu      sync.Mutex
	targets names
}

func newGathering() *gathering { return &gathering{nudge: make(chan struct{}, 1)} }

// add never blocks. It tells how many older targets were forgotten for the new ones.
func (g *gathering) add(targets []string) (forgotten int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.targets.add(targets)
	forgotten = len(g.targets.trim(maxRemembered, maxRememberedBytes))
	if len(g.targets.list) > 0 {
		select {
		case g.nudge <- struct{}{}:
		default:
		}
	}
	return forgotten
}

// take empties the gathering; nil where it is empty.
func (g *gathering) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.targets.takeAll()
}

func (g *gathering) empty() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.targets.list) == 0
}

// pace lets so many things happen at once, and then one every so often. The zero value is ready; it
// is safe for concurrent use.
type pace struct {
	mu   sync.Mutex
	paid time.Time // when what came so far would have come, one every so often
}

// due counts one more, and tells how long it is to wait.
func (p *pace) due(now time.Time, atOnce int, every time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paid.Before(now) {
		p.paid = now
	}
	p.paid = p.paid.Add(every)
	return max(0, p.paid.Sub(now)-time.Duration(atOnce)*every)
}

// forgive takes back what due counted.
func (p *pace) forgive(every time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paid = p.paid.Add(-every)
}

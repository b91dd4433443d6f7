package master

import (
	"context"
	"errors"
	"sync"

	jobnet "jobd/net"
)

// Targets that nobody serves are remembered up to this many, and this many bytes of names; beyond it the oldest are forgotten.
const (
	maxRemembered      = 10_000
	maxRememberedBytes = 1 << 20
)

// targetsData is the data of the requests that name targets; none stands for all.
type targetsData struct {
	Targets []string `json:"targets,omitempty"`
}

// pokes are the targets that were poked: those to be delivered next, and those that nobody served. It is safe for concurrent use.
type pokes struct {
	nudge chan struct{} // holds a token while something is pending

	mu       sync.Mutex
	pending  names
	unserved names
}

func newPokes() *pokes { return &pokes{nudge: make(chan struct{}, 1)} }

// add puts targets into the next delivery.
func (p *pokes) add(targets []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending.add(targets)
	select {
	case p.nudge <- struct{}{}:
	default:
	}
}

// take empties what is pending.
func (p *pokes) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending.takeIf(func(string) bool { return true })
}

// remember keeps targets until a worker that serves them registers. It tells how many older ones were forgotten for it.
func (p *pokes) remember(targets []string) (forgotten int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unserved.add(targets)
	return p.unserved.trim(maxRemembered, maxRememberedBytes)
}

// recall gives, and forgets, the remembered targets that a worker serves.
func (p *pokes) recall(w *worker) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unserved.takeIf(w.serves)
}

// poke answers poke.
func (m *Master) poke(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
	targets, err := request.Fields().Targets()
	if err != nil {
		return nil, err
	}
	m.pokes.add(targets)
	return "ok", nil
}

// deliver has every worker polled that serves something that was poked, and remembers what nobody serves.
func (m *Master) deliver() {
	targets := m.pokes.take()
	if len(targets) == 0 {
		return
	}
	poked, served := setOf(targets), make(map[string]bool)
	for _, w := range m.registry.all() {
		his := w.served(poked)
		for _, target := range his {
			served[target] = true
		}
		m.poll(w, his)
	}
	var unserved []string
	for _, target := range targets {
		if !served[target] {
			unserved = append(unserved, target)
		}
	}
	m.remember(unserved)
}

func (m *Master) remember(targets []string) {
	if forgotten := m.pokes.remember(targets); forgotten > 0 {
		m.config.Logger.Warn("too many targets were poked that nobody serves: forgot the oldest", "forgotten", forgotten)
	}
}

// poll has a worker poll targets. A worker gets one poll at a time: what comes up meanwhile goes into the next.
func (m *Master) poll(w *worker, targets []string) {
	if !w.polls.begin(targets) {
		return
	}
	m.tasks.Go(func() {
		for targets := w.polls.next(); targets != nil; targets = w.polls.next() {
			m.pollNow(w, targets)
		}
	})
}

// pollNow sends one poll. Its context is not that of Run: what was acknowledged is still delivered when the master stops.
func (m *Master) pollNow(w *worker, targets []string) {
	_, err := m.ask(context.Background(), w, "poll", targetsData{targets})
	switch {
	case err == nil:
	case errors.Is(err, jobnet.ErrLinkClosed):
		m.registry.remove(w)
		m.pokes.add(targets) // it may be back by now; if not, they will be remembered
	default:
		m.config.Logger.Warn("worker did not poll", "worker", w.name(), "targets", targets, "error", err)
		m.remember(targets)
	}
}

// pollQueue gathers the targets that one worker is to poll. It is safe for concurrent use.
type pollQueue struct {
	mu      sync.Mutex
	targets names
	active  bool // somebody calls next
}

// begin queues targets and tells whether the caller must call next until it gives nil.
func (q *pollQueue) begin(targets []string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.targets.add(targets)
	if q.active || len(q.targets.list) == 0 {
		return false
	}
	q.active = true
	return true
}

func (q *pollQueue) next() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	targets := q.targets.takeIf(func(string) bool { return true })
	q.active = targets != nil
	return targets
}

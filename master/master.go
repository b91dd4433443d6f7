package master

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// Config says how a master treats its workers.
type Config struct {
	PingInterval time.Duration // between pings of a worker; one that is silent for three of them is dropped; 0: 30 s
	PokeThrottle time.Duration // for which pokes are gathered after one went out; 0: not at all
	Logger       *slog.Logger  // nil: none

	Memory func() contract.MemoryUsage // what this process uses, for status; nil: nobody knows

	deliveryTimeout time.Duration // how long a worker may take to answer a ping before it is given jobs by hand; 0: 3.5 s
}

// Master is the registry of workers, and what clients may ask of them. Its methods are safe for
// concurrent use.
type Master struct {
	config   Config
	registry registry
	clients  clients
	chatter  chatter
	pokes    *gathering // to be delivered next
	ledger   ledger     // delivered, but not answered for certain

	long      chan struct{} // one for each long message that is read or made
	turns     chan struct{} // one for each worker that is asked, see turn
	longTurns chan struct{} // the same, with a long message
	forwarded *cargo        // long messages on their way to workers
	answers   atomic.Int64  // bytes of workers' answers that are kept until all have come

	registered chan *worker  // to Run
	ended      chan struct{} // closed when Run has ended
	tasks      sync.WaitGroup
}

// New makes a master that knows no worker. It registers and polls workers while Run runs.
func New(config Config) *Master {
	if config.PingInterval == 0 {
		config.PingInterval = 30 * time.Second
	}
	if config.deliveryTimeout == 0 {
		config.deliveryTimeout = 3500 * time.Millisecond
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Memory == nil {
		config.Memory = func() (none contract.MemoryUsage) { return none }
	}
	return &Master{
		config:     config,
		pokes:      newGathering(),
		long:       make(chan struct{}, processors()),
		turns:      make(chan struct{}, turnsAtOnce),
		longTurns:  make(chan struct{}, longTurnsAtOnce),
		forwarded:  newCargo(forwardedBytes),
		registered: make(chan *worker),
		ended:      make(chan struct{}),
	}
}

// Handlers are the requests that the master's server answers.
func (m *Master) Handlers() map[string]jobnet.Handler {
	handlers := map[string]jobnet.Handler{
		contract.Register.Name:       m.register,
		contract.Poke.Name:           m.poke,
		contract.MasterPause.Name:    m.pause,
		contract.MasterContinue.Name: m.pause, // asks the workers for what it was asked itself
		contract.MasterStatus.Name:   m.status,
		contract.RouteManual.Name:    m.runManual,
		contract.RouteSignal.Name:    m.sendSignal,
	}
	for _, typ := range contract.JournalRequests {
		handlers[typ] = m.journal
	}
	return handlers
}

// Run looks after the workers until ctx ends: it sends what they are poked for, pings them and
// drops the dead ones. It ends with a last delivery of the pokes that were acknowledged, and
// returns nil.
func (m *Master) Run(ctx context.Context) error {
	defer close(m.ended)
	defer m.tasks.Wait()
	attended := make(map[*worker]bool)
	left := make(chan *worker)
	poked := m.pokes.nudge
	var gathered <-chan time.Time // when poked is listened to again
	for {
		select {
		case w := <-m.registered:
			if !attended[w] {
				attended[w] = true
				m.tasks.Go(func() { m.attend(ctx, w, left) })
			}
			m.recall(ctx, w)
		case w := <-left:
			delete(attended, w)
		case <-poked:
			m.deliver(ctx)
			if m.config.PokeThrottle > 0 {
				poked, gathered = nil, time.After(m.config.PokeThrottle)
			}
		case <-gathered:
			poked, gathered = m.pokes.nudge, nil
		case <-ctx.Done():
			m.deliver(ctx)
			return nil
		}
	}
}

// attend keeps a worker's link alive and takes the worker out of the registry when it has ended.
func (m *Master) attend(ctx context.Context, w *worker, left chan<- *worker) {
	err := w.link.KeepAlive(ctx, m.config.PingInterval)
	if ctx.Err() != nil {
		return
	}
	m.registry.remove(w)
	m.say(slog.LevelInfo, w.link, "worker left", "worker", w.name(), "reason", cut(err.Error()))
	select {
	case left <- w:
	case <-ctx.Done():
	}
}

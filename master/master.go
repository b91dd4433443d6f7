package master

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	jobnet "jobd/net"
	"jobd/net/api"
)

// Config says how a master treats its workers.
type Config struct {
	PingInterval time.Duration // between pings of a worker; one that is silent for three of them is dropped; 0: 30 s
	PokeThrottle time.Duration // for which pokes are gathered after one went out; 0: not at all
	Logger       *slog.Logger  // nil: none
	Build        api.Build

	Recorder Recorder              // nil: nothing is kept
	Troubles func() []api.NotReady // what keeps it from a part of its work, for status; nil: nothing

	Memory func() api.MemoryUsage // what this process uses, for status; nil: nobody knows

	// Pulse is told how the loop goes that looks after workers and pokes; nil: nobody is.
	Pulse jobnet.Pulse

	// deliveryTimeout: how long a worker may take to answer a ping before it is given jobs by hand;
	// 0: 3.5 s.
	deliveryTimeout time.Duration
}

// Master is the registry of workers, and what clients may ask of them. Its methods are safe for
// concurrent use.
type Master struct {
	config   Config
	registry registry
	clients  clients
	peers    *slog.Logger // for what peers do
	pokes    *gathering   // to be delivered next
	ledger   ledger       // delivered, but not answered for certain
	tallies  tallies

	forwarded *semaphore.Weighted // bytes of long messages on their way to workers
	answers   atomic.Int64        // bytes of workers' answers that are kept until all have come

	registered chan *worker  // to Run
	ended      chan struct{} // closed when Run has ended
	tasks      sync.WaitGroup
}

// New makes a master that knows no worker. It registers and polls workers while Run runs.
func New(config Config) *Master {
	config.PingInterval = cmp.Or(config.PingInterval, 30*time.Second)
	config.deliveryTimeout = cmp.Or(config.deliveryTimeout, 3500*time.Millisecond)
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	if config.Recorder == nil {
		config.Recorder = unrecorded{}
	}
	if config.Troubles == nil {
		config.Troubles = func() []api.NotReady { return nil }
	}
	if config.Memory == nil {
		config.Memory = func() (none api.MemoryUsage) { return none }
	}
	return &Master{
		config:     config,
		peers:      jobnet.Bounded(config.Logger, linesAtOnce, lineEvery),
		pokes:      newGathering(),
		forwarded:  semaphore.NewWeighted(forwardedBytes),
		registered: make(chan *worker),
		ended:      make(chan struct{}),
	}
}

// say logs what a peer did.
func (m *Master) say(level slog.Level, link *jobnet.Link, text string, details ...any) {
	m.peers.Log(context.Background(), level, text, append(details, "address", link.RemoteAddr().String())...)
}

// Handlers are the requests that the master's server answers.
func (m *Master) Handlers() map[string]jobnet.Handler {
	handlers := map[string]jobnet.Handler{
		api.Register.Name:       m.recorded(m.register),
		api.Poke.Name:           m.poke,
		api.MasterPause.Name:    m.pause,
		api.MasterContinue.Name: m.pause, // asks the workers for what it was asked itself
		api.MasterRecycle.Name:  m.pause,
		api.MasterStatus.Name:   m.status,
		api.RouteManual.Name:    m.runManual,
		api.RouteSignal.Name:    m.sendSignal,
	}
	for typ, kind := range api.Kinds {
		if kind.Relayed || kind.OneWorker {
			handlers[typ] = m.relay
		}
	}
	for typ, handler := range handlers {
		if changes(typ) {
			handlers[typ] = m.told(m.recorded(handler))
		}
	}
	return api.Gate(handlers, func(request jobnet.Request, err error) {
		m.peers.Warn("a change was refused", "request", request.Type, "by", request.From.By(), "why", err)
		m.recordRefusal(request, err)
	})
}

// Run looks after the workers until ctx ends: it sends what they are poked for, pings them and
// drops the dead ones. It ends with a last delivery of the pokes that were acknowledged, and
// returns nil.
func (m *Master) Run(ctx context.Context) error {
	defer close(m.ended)
	defer m.tasks.Wait()
	poked := m.pokes.nudge
	var gathered <-chan time.Time // when poked is listened to again
	idle := time.NewTicker(idleLook)
	defer idle.Stop()
	for {
		select {
		case w := <-m.registered:
			if !w.attended {
				w.attended = true
				m.tasks.Go(func() { m.attend(ctx, w) })
			}
			m.works(func() { m.poll(ctx, w, m.ledger.allOwed()) }) // it is told what was poked before
		case <-poked:
			m.works(func() { m.deliver(ctx) })
			if m.config.PokeThrottle > 0 {
				poked, gathered = nil, time.After(m.config.PokeThrottle)
			}
		case <-gathered:
			poked, gathered = m.pokes.nudge, nil
		case <-idle.C:
			m.tasks.Go(func() { m.forgetIdle(ctx) })
		case <-ctx.Done():
			m.deliver(ctx)
			return nil
		}
	}
}

// works tells the pulse of a piece of work.
func (m *Master) works(work func()) {
	if m.config.Pulse != nil {
		m.config.Pulse.Works()
		defer m.config.Pulse.Waits()
	}
	work()
}

// attend keeps a worker's link alive and takes the worker out of the registry when it has ended.
func (m *Master) attend(ctx context.Context, w *worker) {
	err := w.link.KeepAlive(ctx, m.config.PingInterval)
	if ctx.Err() == nil {
		m.registry.remove(w)
		p, reason := w.profile.Load(), jobnet.Excerpt(err.Error())
		if p.leaving {
			reason = "it stops"
		}
		m.say(slog.LevelInfo, w.link, "worker left", "worker", p.name, "reason", reason)
		if !errors.Is(err, errReplaced) { // else it is registered over another link
			m.config.Recorder.Left(p.name, reason, p.by)
		}
	}
}

// changes tells whether a client changes something by a request, on the master or on workers.
func changes(typ string) bool { return api.Kinds[typ].Changes }

// told has the log say who asks for a change, and which. What became of it the workers' logs and
// journals say, with the client's name.
func (m *Master) told(handler jobnet.Handler) jobnet.Handler {
	return func(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
		m.say(slog.LevelInfo, link, "a change is asked for", "request", request.Type, "by", request.From.By(), "about", jobnet.Excerpt(string(request.Data)))
		return handler(ctx, link, request)
	}
}

// What peers may have a master hold and do, by number; what one request may have is in
// net/api. docs/protocol.md lists it all for people who write clients.
const (
	mostJobs          = api.MostJobs // that one client waits for at once
	mostWorkers       = 10_000       // that are registered
	mostTargetsOfAll  = 300_000      // of all workers
	mostJobsOfAll     = 1_000_000    // that all clients wait for at once
	freeJobs          = 1_000        // a request of at most so many jobs is taken however many the others wait for
	mostRelayedBytes  = 1 << 20      // of the data of a request that is handed on as it is
	mostAnswerBytes   = 64 << 20     // of what all workers answer to one request
	mostKeptBytes     = 256 << 20    // of those for all clients
	registrationBytes = 4 << 20      // of the data of a registration: more than its limits allow is not looked at
	forwardedBytes    = 64 << 20     // of long messages on their way to workers at once, each counted once
	longBytes         = 64 << 10     // beyond it a message is long: it waits for others of its kind
)

// fanOut is how many workers are asked at once for one client, whatever it asks.
const fanOut = 1024

package master

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// AgentConfig says where a worker registers and as what.
type AgentConfig struct {
	Address          string                       // of the master, host:port
	Name             string                       // of the worker
	Instance         string                       // tells this worker from all others, whatever their names; empty: none
	Targets          func() []string              // those served now; safe for concurrent use
	Folds            func() bool                  // whether the table takes names for one that differ in case; nil: it does not
	Rates            func() []contract.SharedRate // those that all workers of the master keep together; safe for concurrent use; nil: none
	OnLent           func(map[string]float64)     // called with the shares of them that the master lends, in starts a second; must not block
	OnRegistered     func()                       // called after each registration; must not block; nil: nobody
	Handlers         map[string]jobnet.Handler    // what the master may ask
	Password         string                       // empty: none
	MaxMessageSize   int                          // bytes; 0: 16 MiB
	ReconnectTimeout time.Duration                // the longest wait before the next try, the real one being random; 0: 10 s
	DrainTimeout     time.Duration                // how long the master's requests under way may take once Run is to end; 0: 5 s
	Logger           *slog.Logger                 // nil: none

	pingInterval time.Duration // a master silent for three of them is left; 0: 30 s; tests have less patience
}

// Agent keeps a worker registered with one master, and tells the master what other workers should
// look for.
type Agent struct {
	config  AgentConfig
	changed chan struct{}
	rated   chan struct{} // the rates that all workers keep together have changed
	pokes   *gathering
	end     func() time.Time // when Run must have returned; asked only once ctx has ended
	state   atomic.Pointer[contract.MasterStanding]
	lost    time.Time // since when there is no connection, as the log was told; only Run's
}

// NewAgent makes an agent that does nothing before Run.
func NewAgent(config AgentConfig) *Agent {
	if config.ReconnectTimeout == 0 {
		config.ReconnectTimeout = 10 * time.Second
	}
	if config.DrainTimeout == 0 {
		config.DrainTimeout = 5 * time.Second
	}
	if config.pingInterval == 0 {
		config.pingInterval = 30 * time.Second
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	config.Logger = config.Logger.With("master", config.Address)
	if config.Folds == nil {
		config.Folds = func() bool { return false }
	}
	if config.Rates == nil {
		config.Rates = func() []contract.SharedRate { return nil }
	}
	if config.OnRegistered == nil {
		config.OnRegistered = func() {}
	}
	a := &Agent{config: config, changed: make(chan struct{}, 1), rated: make(chan struct{}, 1), pokes: newGathering()}
	a.note(false, nil)
	a.end = sync.OnceValue(func() time.Time { return time.Now().Add(a.config.DrainTimeout) })
	return a
}

// TargetsChanged has the agent tell the master the targets anew. It never blocks, and may be called
// from anywhere.
func (a *Agent) TargetsChanged() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

var errNoTargets = errors.New("no targets are served")

// connect gives a link that runs until leave is called, which must be.
func (a *Agent) connect(ctx context.Context) (link *jobnet.Link, leave func(), err error) {
	dialling, cancel := context.WithTimeout(ctx, a.config.ReconnectTimeout)
	defer cancel()
	link, err = jobnet.Connect(dialling, a.config.Address, jobnet.LinkConfig{
		Handlers:       a.config.Handlers,
		PeerIsMaster:   true,
		Password:       a.config.Password,
		MaxMessageSize: a.config.MaxMessageSize,
		Logger:         a.config.Logger,
	})
	if err != nil {
		return nil, nil, err
	}
	var tasks sync.WaitGroup
	tasks.Go(func() { _ = link.Run(context.Background()) })
	tasks.Go(func() { _ = link.KeepAlive(context.Background(), a.config.pingInterval) })
	return link, func() { _ = link.Close(); tasks.Wait() }, nil
}

// note remembers what Status tells.
func (a *Agent) note(registered bool, err error) {
	status := contract.MasterStanding{Address: a.config.Address, Registered: registered}
	if err != nil {
		status.Error = err.Error()
	}
	if before := a.state.Load(); before != nil {
		if status.Since = before.Since; before.Since.IsZero() || before.Registered != registered {
			status.Since = time.Now()
		}
	}
	a.state.Store(&status)
}

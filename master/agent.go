package master

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// AgentConfig says where a worker registers and as what.
type AgentConfig struct {
	Address          string                    // of the master, host:port
	Name             string                    // of the worker
	Instance         string                    // tells this worker from all others, whatever their names; empty: none
	Targets          func() []string           // those served now; safe for concurrent use
	Folds            func() bool               // whether the table takes names for one that differ in case; nil: it does not
	OnRegistered     func()                    // called after each registration; must not block; nil: nobody
	Handlers         map[string]jobnet.Handler // what the master may ask
	Password         string                    // empty: none
	MaxMessageSize   int                       // bytes; 0: 16 MiB
	ReconnectTimeout time.Duration             // the longest wait before the next try, the real one being random; 0: 10 s
	PingInterval     time.Duration             // a master silent for three of them is left; 0: 30 s
	DrainTimeout     time.Duration             // how long the master's requests under way may take once Run is to end; 0: 5 s
	Logger           *slog.Logger              // nil: none
}

// Agent keeps a worker registered with one master, and tells the master what other workers should
// look for.
type Agent struct {
	config  AgentConfig
	changed chan struct{}
	pokes   *gathering
	end     func() time.Time // when Run must have returned; asked only once ctx has ended
	state   atomic.Pointer[contract.MasterStanding]
}

// NewAgent makes an agent that does nothing before Run.
func NewAgent(config AgentConfig) *Agent {
	if config.ReconnectTimeout == 0 {
		config.ReconnectTimeout = 10 * time.Second
	}
	if config.DrainTimeout == 0 {
		config.DrainTimeout = 5 * time.Second
	}
	if config.PingInterval == 0 {
		config.PingInterval = 30 * time.Second
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	config.Logger = config.Logger.With("master", config.Address)
	if config.Folds == nil {
		config.Folds = func() bool { return false }
	}
	if config.OnRegistered == nil {
		config.OnRegistered = func() {}
	}
	a := &Agent{config: config, changed: make(chan struct{}, 1), pokes: newGathering()}
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
		last = err.Error()
		a.pause(ctx, time.After(jitter(a.config.ReconnectTimeout)))
	}
	return nil
}

// jitter is a random part of a time: workers that lost their master together must not all come
// back at once.
func jitter(most time.Duration) time.Duration { return rand.N(most) }

var errNoTargets = errors.New("no targets are served")

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
	tasks.Go(func() { _ = link.KeepAlive(context.Background(), a.config.PingInterval) })
	return link, func() { _ = link.Close(); tasks.Wait() }, nil
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

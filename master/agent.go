package master

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	jobnet "jobd/net"
)

// AgentConfig says where a worker registers and as what.
type AgentConfig struct {
	Address          string                    // of the master, host:port
	Name             string                    // of the worker
	Targets          func() []string           // those served now; safe for concurrent use
	Handlers         map[string]jobnet.Handler // what the master may ask
	Password         string                    // empty: none
	MaxMessageSize   int                       // bytes; 0: 16 MiB
	ReconnectTimeout time.Duration             // the longest wait before the next try, the real one being random; 0: 10 s
	PingInterval     time.Duration             // a master silent for three of them is left; 0: 30 s
	DrainTimeout     time.Duration             // how long the master's requests under way may take once Run is to end; 0: 5 s
	Logger           *slog.Logger              // nil: none
}

// Agent keeps a worker registered with one master.
type Agent struct {
	config  AgentConfig
	changed chan struct{}
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
	return &Agent{config: config, changed: make(chan struct{}, 1)}
}

// TargetsChanged has the agent tell the master the targets anew. It never blocks, and may be called from anywhere.
func (a *Agent) TargetsChanged() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// Run connects, registers, and serves the master's requests, again and again until ctx ends. Then it lets requests under way
// finish for the DrainTimeout, and returns nil. A worker that serves nothing stays away from the master until it does.
func (a *Agent) Run(ctx context.Context) error {
	var last string // what was last logged: a master that stays away is not worth a line for every try
	for ctx.Err() == nil {
		if len(a.config.Targets()) == 0 {
			a.pause(ctx, nil)
			continue
		}
		registered, err := a.session(ctx)
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
// back at once (pitfall 37).
func jitter(most time.Duration) time.Duration { return rand.N(most) }

var errNoTargets = errors.New("no targets are served")

// pause waits until ctx ends, or for the timer, or, without a timer, until the targets change.
func (a *Agent) pause(ctx context.Context, timer <-chan time.Time) {
	var changed <-chan struct{}
	if timer == nil {
		changed = a.changed
	}
	select {
	case <-ctx.Done():
	case <-timer:
	case <-changed:
	}
}

// session is one connection, from its beginning to its end. It tells whether the worker was registered.
func (a *Agent) session(ctx context.Context) (registered bool, err error) {
	dialling, cancel := context.WithTimeout(ctx, a.config.ReconnectTimeout)
	defer cancel()
	link, err := jobnet.Connect(dialling, a.config.Address, jobnet.LinkConfig{
		Handlers:       a.config.Handlers,
		Password:       a.config.Password,
		MaxMessageSize: a.config.MaxMessageSize,
		Logger:         a.config.Logger,
	})
	if err != nil {
		return false, err
	}
	ran := make(chan struct{})
	go func() { defer close(ran); _ = link.Run(context.Background()) }()
	defer func() { _ = link.Close(); <-ran }()
	alive := make(chan struct{})
	go func() { defer close(alive); _ = link.KeepAlive(context.Background(), a.config.PingInterval) }()
	defer func() { _ = link.Close(); <-alive }()
	return a.stay(ctx, link)
}

// stay registers, and again whenever the targets change, until the link or ctx ends.
func (a *Agent) stay(ctx context.Context, link *jobnet.Link) (registered bool, err error) {
	for {
		if err := a.register(ctx, link); err != nil {
			return registered, err
		}
		registered = true
		select {
		case <-a.changed:
		case <-link.Done():
			return true, link.Err()
		case <-ctx.Done():
			a.drain(link)
			return true, ctx.Err()
		}
	}
}

// registration is the data of register-worker.
type registration struct {
	Name    string   `json:"name"`
	Targets []string `json:"targets"`
}

func (a *Agent) register(ctx context.Context, link *jobnet.Link) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	targets := a.config.Targets()
	if len(targets) == 0 {
		return errNoTargets
	}
	if _, err := link.Request(ctx, "register-worker", registration{a.config.Name, targets}); err != nil {
		return fmt.Errorf("register with %s: %w", a.config.Address, err)
	}
	a.config.Logger.Info("registered with the master", "targets", targets)
	return nil
}

// drain lets the master have the answers that it waits for.
func (a *Agent) drain(link *jobnet.Link) {
	ctx, cancel := context.WithTimeout(context.Background(), a.config.DrainTimeout)
	defer cancel()
	if err := link.Shutdown(ctx); err != nil {
		a.config.Logger.Warn("stopped before the master had all answers", "error", err)
	}
}

package master

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
)

// AgentConfig says where a worker registers and as what.
type AgentConfig struct {
	Address string // of the master, host:port
	Name    string // of the worker
	// Instance: tells this agent from all others, of this worker too, whatever their names; empty:
	// none.
	Instance     string
	Targets      func() []string             // those served now; safe for concurrent use
	OnRegistered func()                      // called after each registration; must not block
	Handlers     map[string]jobnet.Handler   // what the master may ask
	Password     string                      // empty: none
	TLS          func() (*tls.Config, error) // see jobnet.LinkConfig
	// Dial: see jobnet.LinkConfig.
	Dial           func(ctx context.Context, address string) (net.Conn, error)
	Scope          principal.Scope // see jobnet.LinkConfig.MasterScope
	MaxMessageSize int             // bytes; 0: 16 MiB
	// ReconnectTimeout: the longest wait before the next try, the real one being random; 0: 10 s.
	ReconnectTimeout time.Duration
	Leaves           func() bool // once Run must end: whether the worker stops in order
	// DrainTimeout: how long the master's requests under way may take once Run must end; 0: 5 s.
	DrainTimeout time.Duration
	Logger       *slog.Logger // nil: none

	pingInterval time.Duration // a master silent for three of them is left; 0: 30 s; tests have less patience
}

// Agent keeps a worker registered with one master, and tells the master what other workers should
// look for.
type Agent struct {
	config     AgentConfig
	changed    chan struct{}
	pokes      *gathering
	end        func() time.Time // when Run must have returned; asked only once ctx has ended
	state      atomic.Pointer[api.MasterStanding]
	registered api.Registration // as the master has the worker, or had it last; only Run's
}

// NewAgent makes an agent that does nothing before Run.
func NewAgent(config AgentConfig) *Agent {
	config.ReconnectTimeout = cmp.Or(config.ReconnectTimeout, 10*time.Second)
	config.DrainTimeout = cmp.Or(config.DrainTimeout, 5*time.Second)
	config.pingInterval = cmp.Or(config.pingInterval, 30*time.Second)
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler)).With("master", config.Address)
	a := &Agent{config: config, changed: make(chan struct{}, 1), pokes: newGathering()}
	a.note(false, nil)
	a.end = sync.OnceValue(func() time.Time { return time.Now().Add(a.config.DrainTimeout) })
	return a
}

// Changed has the agent tell the master the targets anew. It never blocks, and may be called from anywhere.
func (a *Agent) Changed() { nudge(a.changed) }

// nudge puts a token into a channel that has room for one.
func nudge(tokens chan struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}

var errNoTargets = errors.New("no targets are served")

// connect gives a link that runs until leave is called, which must be.
func (a *Agent) connect(ctx context.Context) (link *jobnet.Link, leave func(), err error) {
	dialling, cancel := context.WithTimeout(ctx, max(a.config.ReconnectTimeout, time.Second)) // a busy host needs its time
	defer cancel()
	link, err = jobnet.Connect(dialling, a.config.Address, jobnet.LinkConfig{
		Handlers:       a.config.Handlers,
		PeerIsMaster:   true,
		MasterScope:    a.config.Scope,
		Password:       a.config.Password,
		TLS:            a.config.TLS,
		Dial:           a.config.Dial,
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
	status := api.MasterStanding{Address: a.config.Address, Registered: registered}
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

// Run connects, registers, and serves the master's requests, again and again until ctx ends. Then
// it delivers what Poke was given and lets requests under way finish, all within the DrainTimeout,
// and returns nil. A worker that serves nothing stays away from the master until it does, or has
// something to tell. Run is called once.
func (a *Agent) Run(ctx context.Context) error {
	defer a.sendLast()
	for ctx.Err() == nil {
		if len(a.config.Targets()) == 0 && a.pokes.empty() {
			select {
			case <-ctx.Done():
			case <-a.changed:
			case <-a.pokes.nudge:
			}
			continue
		}
		err := a.session(ctx)
		before := a.Status()
		a.note(false, err)
		if ctx.Err() != nil || errors.Is(err, errNoTargets) {
			continue
		}
		if before.Registered || before.Error != err.Error() { // one that stays away is not worth a line for every try
			a.config.Logger.Warn("no connection to the master, trying again", "error", err, "within", a.config.ReconnectTimeout)
		}
		select {
		case <-ctx.Done():
		case <-time.After(jitter(a.config.ReconnectTimeout)):
		}
	}
	return nil
}

// jitter is a random part of a time: workers that lost their master together must not all come
// back at once.
func jitter(most time.Duration) time.Duration { return rand.N(most) }

// session is one connection, from its beginning to its end. The worker registers, and again whenever
// its targets change, and tells the master what Poke is given, until the link or ctx ends.
func (a *Agent) session(ctx context.Context) error {
	link, leave, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer leave()
	err = a.register(ctx, link)
	if err != nil && !errors.Is(err, errNoTargets) {
		return err
	}
	untold := a.sendPending(ctx, link)
	if err != nil {
		return cmp.Or(untold, err)
	}
	for {
		select {
		case <-a.changed:
			err := a.register(ctx, link)
			if errors.Is(err, errNoTargets) {
				err = cmp.Or(a.sendPending(ctx, link), err)
				a.leave(ctx, link)
			}
			if err != nil {
				return err
			}
		case <-a.pokes.nudge:
			_ = a.sendPending(ctx, link)
		case <-link.Done():
			return link.Err()
		case <-ctx.Done():
			a.drain(link)
			return ctx.Err()
		}
	}
}

// drain tells the master what is still to be told and lets it have the answers that it waits for.
func (a *Agent) drain(link *jobnet.Link) {
	ctx, cancel := context.WithDeadline(context.Background(), a.end())
	defer cancel()
	a.sendLast() // first: a job under way may take all the time that there is
	if a.config.Leaves() {
		a.leave(ctx, link)
	}
	if err := link.Shutdown(ctx); err != nil {
		a.config.Logger.Warn("stopped before the master had all answers", "error", err)
	}
}

// Status tells how the agent stands with its master. It is safe for concurrent use.
func (a *Agent) Status() api.MasterStanding { return *a.state.Load() }

// registerTimeout is how long the master may take to answer a registration. It holds its answer to a
// wrong password back, for five seconds where the address has given many: an agent that hangs up
// before never hears that it is the password.
const registerTimeout = 15 * time.Second

// register registers over a link.
func (a *Agent) register(ctx context.Context, link *jobnet.Link) error {
	targets := a.config.Targets()
	if len(targets) == 0 {
		return errNoTargets
	}
	data := api.Registration{Name: a.config.Name, Targets: targets, Instance: a.config.Instance, Askers: true}
	if _, err := requestWithin(ctx, registerTimeout, link, api.Register.Name, data); err != nil {
		return fmt.Errorf("register with %s: %w", a.config.Address, explained(err))
	}
	before, same := a.Status(), slices.Equal(a.registered.Targets, targets)
	a.registered = data
	a.note(true, nil)
	switch {
	case before.Registered && same:
	case before.Registered, before.Since.IsZero(), before.Error == errNoTargets.Error():
		a.config.Logger.Info("registered with the master", "targets", listed(targets))
	default: // after an outage a warning, as the outage was
		a.config.Logger.Warn("registered with the master again", "targets", listed(targets),
			"after", time.Since(before.Since).Round(time.Millisecond))
	}
	a.config.OnRegistered()
	return nil
}

// leaveTimeout is how long the master may take to hear that the worker leaves.
const leaveTimeout = time.Second

// leave tells the master that the link will end because the worker wants it. A master that does not
// know of that, as an older one, registers it once more. Where nobody hears of it the worker counts as
// down, as one that was killed.
func (a *Agent) leave(ctx context.Context, link *jobnet.Link) {
	leaving := a.registered
	leaving.Leaving = true
	_, _ = requestWithin(ctx, leaveTimeout, link, api.Register.Name, leaving)
}

// explained is why a registration failed, with what an operator can do about it.
func explained(err error) error {
	var refused *jobnet.RemoteError
	var silent *noAnswerError
	hint := ""
	switch {
	case strings.Contains(err.Error(), jobnet.PlainRefused):
		return err // which says what to do
	case errors.As(err, &silent), errors.Is(err, jobnet.ErrLinkClosed):
		hint = "is it a master that listens there?"
	case !errors.As(err, &refused):
		return err
	case jobnet.CodeOf(err) == jobnet.CodePassword:
		hint = "the worker's password must be that of the master, or a token of its principals_file"
	case jobnet.CodeOf(err) == jobnet.CodeUnknown:
		hint = "it is not a master, but perhaps a worker"
	default:
		return fmt.Errorf("the master refuses: %w", err)
	}
	return fmt.Errorf("%w: %s", err, hint)
}

// Poke has the master tell every worker that serves one of the targets, this one included, to look
// for jobs. It never blocks. What the master has not answered is told again, over the next
// connection where need be; an agent that stops makes a last attempt, and what is lost then, or
// with the process, is found when a worker registers or polls.
func (a *Agent) Poke(targets []string) {
	if forgotten := a.pokes.add(targets); forgotten > 0 {
		a.config.Logger.Warn("too many targets wait to be poked at the master: forgot the oldest", "forgotten", forgotten)
	}
}

// sendPending sends targets until none is pending. Targets that the master did not answer stay
// pending. So do targets that it refuses: they are sent again after answerTimeout.
func (a *Agent) sendPending(ctx context.Context, link *jobnet.Link) error {
	for targets := a.pokes.take(); targets != nil; targets = a.pokes.take() {
		_, err := requestWithin(ctx, answerTimeout, link, api.Poke.Name, api.Targets{Targets: targets})
		if err == nil {
			continue
		}
		a.Poke(targets)
		var refused *jobnet.RemoteError
		if errors.As(err, &refused) {
			a.config.Logger.Warn("the master refused a poke, trying again", "error", err, "in", answerTimeout)
			<-a.pokes.nudge // it is no news
			time.AfterFunc(answerTimeout, func() { nudge(a.pokes.nudge) })
		}
		return err
	}
	return nil
}

// sendLast is the last attempt of an agent that stops. It makes a connection of its own: the one
// that there may be can be dead without anybody having noticed, and there is no time to wait for an
// answer in vain.
func (a *Agent) sendLast() {
	if a.pokes.empty() || time.Until(a.end()) <= 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), a.end())
	defer cancel()
	link, leave, err := a.connect(ctx)
	if err == nil {
		defer leave()
		err = a.sendPending(ctx, link)
	}
	if err != nil {
		a.config.Logger.Warn("stopped before the master was told of rows for other workers", "error", err)
	}
}

package master

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// Config says how a master treats its workers.
type Config struct {
	PingInterval time.Duration // between pings of a worker; one that is silent for three of them is dropped; 0: 30 s
	PokeThrottle time.Duration // for which pokes are gathered after one went out; 0: not at all
	Logger       *slog.Logger  // nil: none
	Build        contract.Build

	Memory func() contract.MemoryUsage // what this process uses, for status; nil: nobody knows

	// Pulse is told how the loop goes that looks after workers and pokes; nil: nobody is.
	Pulse Pulse

	deliveryTimeout time.Duration // how long a worker may take to answer a ping before it is given jobs by hand; 0: 3.5 s
}

// Pulse hears that the master's loop does a piece of work that only memory is needed for, and that
// it waits. The methods must not block.
type Pulse interface {
	Works()
	Waits()
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
	lender   *lender    // of rates that workers keep together
	tallies  tallies

	forwarded *semaphore.Weighted // bytes of long messages on their way to workers
	answers   atomic.Int64        // bytes of workers' answers that are kept until all have come

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
		lender:     newLender(time.Now()),
		forwarded:  semaphore.NewWeighted(forwardedBytes),
		registered: make(chan *worker),
		ended:      make(chan struct{}),
	}
}

// say logs what a peer did.
func (m *Master) say(level slog.Level, link *jobnet.Link, text string, details ...any) {
	remote := link.RemoteAddr().String()
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	may, unsaid := m.chatter.may(host, time.Now())
	if !may {
		return
	}
	if unsaid > 0 {
		details = append(details, "lines_left_out", unsaid)
	}
	m.config.Logger.Log(context.Background(), level, text, append(details, "address", remote)...)
}

// Package pulse tells which of a daemon's loops stand still.
//
// A loop says when it works, and when it waits for something outside: for events, for the table, for
// the disk, for a runner. Waiting may take as long as it takes, so an outage, a slow table and a full
// disk are no standstill. Work ends by itself, within milliseconds: a loop that is seen at one and the
// same piece of it at several looks in a row hangs, in a lock that nobody frees, say.
//
//	loops ──Works, Waits──► Loop ◄──looks── Pulse ──► Still: health requests
//	loops ◄──────────────pings──────────────┘    └──► OnLook: the watchdog of systemd
//
// Looks are counted, not seconds: a process that was stopped, or starved, for an hour has looked as
// seldom as its loops have turned. Nothing of it is on the disk.
package pulse

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config says how loops are watched.
type Config struct {
	Limit  time.Duration // for how long one piece of work may go on; 0: 30 s
	Logger *slog.Logger  // is told of standstills, and of their ends; nil: nobody

	// OnLook is called after each look; it may be nil. It must not block for long: no look is taken
	// meanwhile.
	OnLook func(*Pulse)
}

// usualLimit is long beside any piece of work, on a host that has too much to do, too.
const usualLimit = 30 * time.Second

// looks is how many looks make the limit.
const looks = 4

// Pulse watches loops. Its methods are safe for concurrent use.
type Pulse struct {
	config Config

	mu    sync.Mutex
	loops []*Loop
	pings []func()
}

// Still is a loop that stands still.
type Still struct {
	Loop  string    // its name
	Since time.Time // when it was first seen at the work that does not end
}

// New makes a pulse that watches nothing yet.
func New(c Config) *Pulse {
	if c.Limit <= 0 {
		c.Limit = usualLimit
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Pulse{config: c}
}

// Loop adds a loop under a name, which is for people. It waits until it says that it works.
func (p *Pulse) Loop(name string) *Loop {
	l := &Loop{name: name}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loops = append(p.loops, l)
	return l
}

// Ping has ping called before each look: it makes a loop that has nothing to do go round once. It
// must not block.
func (p *Pulse) Ping(ping func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pings = append(p.pings, ping)
}

// Run looks at the loops until ctx ends, and returns nil.
func (p *Pulse) Run(ctx context.Context) error {
	again := time.NewTicker(p.config.Limit / looks)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-again.C:
			p.look(now)
		}
	}
}

// Still lists the loops that stand still, by the last look.
func (p *Pulse) Still() (still []Still) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.loops {
		if l.isStill() {
			still = append(still, Still{l.name, l.since})
		}
	}
	return still
}

// look looks at each loop once, and tells what it saw.
func (p *Pulse) look(now time.Time) {
	p.mu.Lock()
	for _, l := range p.loops {
		before := l.isStill()
		l.look(now)
		switch after := l.isStill(); {
		case after && !before:
			p.config.Logger.Error("a loop hangs: its present step does not end",
				"loop", l.name, "for", now.Sub(l.since).Round(time.Millisecond))
		case before && !after:
			p.config.Logger.Warn("a loop that hung goes on", "loop", l.name)
		}
	}
	pings := p.pings
	p.mu.Unlock()
	if p.config.OnLook != nil {
		p.config.OnLook(p)
	}
	for _, ping := range pings {
		ping()
	}
}

// Loop is the sign of life of one loop, which calls its methods: several goroutines may, where they
// are the loop one after the other. A nil Loop is one that nobody watches.
type Loop struct {
	name  string
	piece atomic.Uint64 // of work; odd while the loop is at it

	// Of looks, the pulse's:
	seen  uint64    // the piece that it was at
	times int       // at how many looks in a row since the first
	since time.Time // the first
}

// Works says that a piece of work begins, and that the former one, if any, has ended.
func (l *Loop) Works() {
	if l != nil {
		l.piece.Store((l.piece.Load() + 1) | 1)
	}
}

// Waits says that the loop waits for something outside, for as long as it takes.
func (l *Loop) Waits() {
	if l != nil {
		l.piece.Store((l.piece.Load() + 1) &^ 1)
	}
}

// look notes at which piece the loop is.
func (l *Loop) look(now time.Time) {
	if piece := l.piece.Load(); piece != l.seen {
		l.seen, l.times, l.since = piece, 0, now
		return
	}
	l.times++
}

// isStill tells whether the loop was at one piece of work for the whole limit.
func (l *Loop) isStill() bool { return l.seen%2 == 1 && l.times >= looks }

package net

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// What peers may have us log within a minute: each kind of line linesEach times for an address (an
// IPv6 /64), all of them together linesOfAll. The rest is counted. Lines for debugging may be more.
const (
	linesEach  = 5
	linesOfAll = 300
	debugTimes = 200
	lineWindow = time.Minute
)

// chatter bounds what peers have us log. It is safe for concurrent use.
type chatter struct {
	log *slog.Logger

	mu      sync.Mutex
	since   time.Time // the window's beginning
	lines   map[lineKind]int
	all     [2]int // lines, for debugging and others
	left    int    // lines left out
	leftOf  map[netip.Prefix]int
	pending bool // somebody will tell of them
}

// lineKind is what is counted: its text and level are constants of the program's.
type lineKind struct {
	from  netip.Prefix
	text  string
	debug bool
}

// logger gives the logger for what is said of a peer.
func (c *chatter) logger(log *slog.Logger, remote net.Addr) *slog.Logger {
	handler := &peerHandler{Handler: log.Handler(), bound: c, from: prefixOf(addressOf(remote))}
	return slog.New(handler).With("peer", remote.String())
}

// allows counts a line, and tells whether it may be written.
func (c *chatter) allows(kind lineKind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.since) > lineWindow {
		c.since, c.lines, c.all = now, make(map[lineKind]int), [2]int{}
	}
	times, level := 1, 0
	if kind.debug {
		times, level = debugTimes, 1
	}
	if c.lines[kind] < linesEach*times && c.all[level] < linesOfAll*times {
		c.lines[kind]++
		c.all[level]++
		return true
	}
	c.leaveOut(kind)
	return false
}

// leaveOut counts a line that is not written, which a later one tells. Callers must hold mu.
func (c *chatter) leaveOut(kind lineKind) {
	if kind.debug {
		return // those come by the thousand, and nobody misses them
	}
	if c.leftOf == nil {
		c.leftOf = make(map[netip.Prefix]int)
	}
	c.left++
	if _, known := c.leftOf[kind.from]; known || len(c.leftOf) < maxRemembered {
		c.leftOf[kind.from]++
	}
	if !c.pending {
		c.pending = true
		time.AfterFunc(lineWindow, c.reportLeftOut)
	}
}

// reportLeftOut logs how much was left out.
func (c *chatter) reportLeftOut() {
	c.mu.Lock()
	lines, addresses := c.left, len(c.leftOf)
	var worst netip.Prefix
	for from, n := range c.leftOf {
		if n > c.leftOf[worst] {
			worst = from
		}
	}
	c.left, c.leftOf, c.pending = 0, nil, false
	c.mu.Unlock()
	c.log.Warn("lines about peers left out, there were too many", "lines", lines, "addresses", addresses, "most_about", worst)
}

// peerHandler hands on what the bound allows.
type peerHandler struct {
	slog.Handler
	bound *chatter
	from  netip.Prefix
}

func (h *peerHandler) Handle(ctx context.Context, record slog.Record) error {
	if !h.bound.allows(lineKind{h.from, record.Message, record.Level < slog.LevelInfo}) {
		return nil
	}
	return h.Handler.Handle(ctx, record)
}

func (h *peerHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &peerHandler{h.Handler.WithAttrs(attrs), h.bound, h.from}
}

func (h *peerHandler) WithGroup(name string) slog.Handler {
	return &peerHandler{h.Handler.WithGroup(name), h.bound, h.from}
}

// Excerpt is what a peer said, in a form that a log may hold: 200 bytes of it at most, and nothing
// that a terminal takes for more than letters.
func Excerpt(text string) string {
	const most = 200
	shown, rest := text, ""
	if len(text) > most {
		shown, rest = text[:most], "… ("+strconv.Itoa(len(text))+" bytes)"
	}
	shown = strings.ToValidUTF8(shown, "")
	if strings.IndexFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
		quoted := strconv.Quote(shown)
		shown = quoted[1 : len(quoted)-1]
	}
	return shown + rest
}

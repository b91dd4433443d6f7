package master

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How much of what peers send the log shows: so many names of a list, and so many bytes of a text.
const (
	namesShown = 5
	textShown  = 100
)

// How many lines peers may write to the log: so many from one address at once, and then one every
// so often. mostAddresses are told apart.
const (
	linesAtOnce   = 1000
	lineEvery     = 100 * time.Millisecond
	mostAddresses = 4096
)

// chatter is what peers have written to the log. The zero value is ready; it is safe for concurrent
// use.
type chatter struct {
	mu sync.Mutex
	of map[string]*voice // by address
}

// voice is the peers at one address.
type voice struct {
	pace   *rate.Limiter
	unsaid int // lines that were left out since the last one
}

// may tells whether a peer at an address may write a line, and how many of its lines were left out
// before it. Where there are too many addresses, all are forgotten.
func (c *chatter) may(address string, now time.Time) (may bool, unsaid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.of[address]
	if v == nil {
		if c.of == nil || len(c.of) >= mostAddresses {
			c.of = make(map[string]*voice)
		}
		v = &voice{pace: rate.NewLimiter(rate.Every(lineEvery), linesAtOnce)}
		c.of[address] = v
	}
	if !v.pace.AllowN(now, 1) {
		v.unsaid++
		return false, 0
	}
	unsaid, v.unsaid = v.unsaid, 0
	return true, unsaid
}

// listed is a list of names as the log shows it: how many there are, and the first.
func listed(names []string) slog.Value {
	shown := make([]string, min(len(names), namesShown))
	for i := range shown {
		shown[i] = cut(names[i])
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return slog.StringValue(text)
}

// cut is a peer's text in a length that fits into a line.
func cut(text string) string {
	if len(text) <= textShown {
		return text
	}
	return strings.ToValidUTF8(text[:textShown], "") + "…"
}

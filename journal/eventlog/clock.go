package eventlog

import (
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Events are stamped with the wall clock, which somebody may set. Ages go by another clock: a time
// line that moves on with the boot clock (CLOCK_BOOTTIME), which nobody sets, and which is kept
// across restarts (see clocknote.go).

// leastJump is by how much the wall clock must differ from what really passed before that is
// logged.
const leastJump = time.Minute

// plausibleGap is the longest time between two boots that the wall clock is believed: nothing else
// measures it.
const plausibleGap = 72 * time.Hour

// instant is a moment by both clocks, in whole microseconds.
type instant struct {
	wall time.Time // what events are stamped with
	real time.Time // what ages are measured with
}

// clock tells what time it is, and how much time really passed. It warns once of each jump of the
// wall clock.
type clock struct {
	now    func() time.Time
	uptime func() time.Duration // nil: the two clocks are one, and nothing is noted
	boot   string
	logger *slog.Logger
	origin time.Time // the time line's beginning, at uptime 0

	mu    sync.Mutex
	ahead time.Duration // by how much the wall clock was ahead of the time line, after its newest jump
	jumps int
}

func newClock(c *Config) *clock {
	k := &clock{now: c.Now, uptime: c.uptime, boot: c.bootID, logger: c.Logger}
	if c.Now == nil {
		k.now = time.Now
	}
	if c.Now == nil && c.uptime == nil {
		k.uptime, k.boot = uptime, bootID()
	}
	return k
}

// bootID is the kernel's name of the current boot; "" where it does not tell, which is taken for
// another one each time.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// uptime is the time since the boot, with what the machine slept.
func uptime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // it fails only for clocks that there are not
	return time.Duration(t.Nano())
}

// look reads both clocks, of which there are two.
func (c *clock) look() (wall time.Time, up time.Duration) {
	wall = c.now().UTC().Truncate(time.Microsecond)
	return wall, c.uptime().Truncate(time.Microsecond)
}

// start makes the time line say real at an uptime, at which the wall clock is so much ahead of it.
func (c *clock) start(real time.Time, up, ahead time.Duration) {
	c.origin, c.ahead = real.Add(-up), ahead
}

// read gives the time, and warns where the wall clock has jumped.
func (c *clock) read() instant {
	at := c.instant()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.jumped(at) {
		return at
	}
	if at = c.instant(); !c.jumped(at) { // the process stood still between its looks at the two clocks
		return at
	}
	ahead := at.wall.Sub(at.real)
	by := ahead - c.ahead
	c.ahead = ahead
	c.jumps++
	way := "forward"
	if by < 0 {
		way = "back"
	}
	c.logger.Warn("the clock was set "+way+"; the journal's history is kept by the time that really passes, not by the clock",
		"by", by.Abs().Round(time.Second), "clock", clockText(at.wall), "passed", clockText(at.real))
	return at
}

func (c *clock) instant() instant {
	if c.uptime == nil {
		now := c.now().UTC().Truncate(time.Microsecond)
		return instant{now, now}
	}
	wall, up := c.look()
	return instant{wall, c.origin.Add(up)}
}

func (c *clock) jumped(at instant) bool {
	return (at.wall.Sub(at.real) - c.ahead).Abs() >= leastJump
}

// jumpCount is how many jumps there were.
func (c *clock) jumpCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jumps
}

// clockText is a time as the log has it.
func clockText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

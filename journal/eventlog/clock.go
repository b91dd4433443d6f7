package eventlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"jobd/journal/archive"
)

// Events are stamped with the wall clock, which somebody may set. Ages go by another clock: a time
// line that moves on with the boot clock (CLOCK_BOOTTIME), which nobody sets, and which is kept
// across restarts (see clockNote).

// leastJump is by how much the wall clock must differ from what really passed before that is
// logged.
const leastJump = time.Minute

// plausibleGap is the longest time between two boots that the wall clock is believed: nothing else
// measures it.
const plausibleGap = 72 * time.Hour

// instant is a moment by both clocks, in whole microseconds.
type instant struct {
	wall time.Time     // what events are stamped with
	real time.Time     // what ages are measured with
	up   time.Duration // since the boot; 0 where the two clocks are one
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
}

func newClock(c *Config) *clock {
	k := &clock{now: c.Now, uptime: c.uptime, boot: c.bootID, logger: c.Logger}
	if c.Now == nil {
		k.now = time.Now
	}
	if c.Now == nil && c.uptime == nil {
		k.uptime, k.boot = uptime, BootID()
	}
	return k
}

// BootID is the kernel's name of the current boot; "" where it does not tell, which is taken for
// another one each time.
func BootID() string {
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
	way := "forward"
	if by < 0 {
		way = "back"
	}
	c.logger.Warn("the clock was set "+way+"; how long history is kept depends on elapsed time, not on the clock",
		"by", by.Abs().Round(time.Second), "clock", clockText(at.wall), "passed", clockText(at.real))
	return at
}

func (c *clock) instant() instant {
	wall := c.now().UTC().Truncate(time.Microsecond)
	if c.uptime == nil {
		return instant{wall: wall, real: wall}
	}
	up := c.uptime().Truncate(time.Microsecond)
	return instant{wall, c.origin.Add(up), up}
}

func (c *clock) jumped(at instant) bool {
	return (at.wall.Sub(at.real) - c.ahead).Abs() >= leastJump
}

// clockText is a time as the log has it.
func clockText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// The clock file says what the time line was when it was written, and when segments began by it, so
// that ages go on across restarts: by the boot clock within a boot, else by the wall clock, as far as
// it is plausible. It is not chained. What it does not know, as in journals of older versions, the
// stamps of the events tell.

// clockNote is the clock file. Times are microseconds; those of the wall clock and the time line
// since 1970.
type clockNote struct {
	Boot   string `json:"boot"`   // the boot's name
	Uptime int64  `json:"uptime"` // since the boot
	Wall   int64  `json:"wall"`
	Real   int64  `json:"real"` // the time line then
	// Segments: when those that are kept began, by the time line, as far as that is known.
	Segments map[int]int64 `json:"segments"`
}

// noteEvery is how often the clock file is written, beside once with each segment.
const noteEvery = time.Hour

// startClock lets the time line go on where it was noted last. The newest segment is folded, whose
// first event bears the stamp begun.
func (j *Log) startClock(begun time.Time) {
	j.begun = map[int]int64{}
	if j.clock.uptime != nil {
		note, err := readClock(j.config.Dir)
		if err != nil {
			j.config.Logger.Warn("the time since the worker's last run is not known; history is kept for longer", "error", err)
		}
		at := j.clock.instant()
		if note == nil {
			note = &clockNote{Wall: at.wall.UnixMicro(), Real: at.wall.UnixMicro()}
			if j.state.Seq > 0 { // of an older version
				note.Wall, note.Real = j.state.Time.UnixMicro(), j.state.Time.UnixMicro()
			}
		}
		if note.Segments != nil {
			j.begun = note.Segments
			maps.DeleteFunc(j.begun, func(n int, _ int64) bool { return n < 1 || n > j.newest.Number }) // damage
		}
		real, ahead := note.goOn(j.clock.boot, at.wall, at.up)
		j.clock.origin, j.clock.ahead = real.Add(-at.up), ahead
		j.clock.read() // warns where it was set while nobody looked
		if known := slices.Collect(maps.Keys(j.begun)); len(known) > 0 {
			// It died before it noted that: they count as of now.
			for n := slices.Max(known) + 1; n <= j.newest.Number; n++ {
				j.begun[n] = real.UnixMicro()
			}
		}
		if begun.After(real) {
			begun = real
		}
	}
	if !begun.IsZero() && j.begun[j.newest.Number] == 0 {
		j.begun[j.newest.Number] = begun.UnixMicro()
	}
}

// goOn gives the time line's present, and by how much the wall clock is expected to be ahead of it.
func (n *clockNote) goOn(boot string, wall time.Time, up time.Duration) (real time.Time, ahead time.Duration) {
	then, before := time.UnixMicro(n.Real).UTC(), time.UnixMicro(n.Wall).UTC()
	if passed := up - time.Duration(n.Uptime)*time.Microsecond; n.Boot != "" && n.Boot == boot && n.Uptime >= 0 && passed >= 0 {
		return then.Add(passed), before.Sub(then)
	}
	real = then.Add(min(max(wall.Sub(before), 0), plausibleGap))
	return real, wall.Sub(real)
}

// ended is when a segment ended by the time line: when the next one began, or else the stamp of its
// last event.
func (j *Log) ended(segment int, stamped time.Time) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	if next, known := j.begun[segment+1]; known && j.clock.uptime != nil { // else stamps and time line are one
		return time.UnixMicro(next)
	}
	return stamped
}

// readClock reads the file; nil where there is none.
func readClock(dir string) (*clockNote, error) {
	data, err := os.ReadFile(filepath.Join(dir, archive.ClockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	note := &clockNote{}
	if err == nil {
		err = json.Unmarshal(data, note)
	}
	if err != nil {
		return nil, fmt.Errorf("read journal's %s file: %w", archive.ClockFile, err)
	}
	return note, nil
}

// noteClock replaces the file where it does not know the newest segment, or is old. A crash leaves
// the file as it was, or the new one; both are true. Without it history is kept for longer.
// maintained is held.
func (j *Log) noteClock(now bool) {
	if j.clock.uptime == nil {
		return
	}
	at := j.clock.read()
	j.mu.Lock()
	newest := j.newest.Number
	maps.DeleteFunc(j.begun, func(segment int, _ int64) bool { return segment <= j.state.Removed.Last() })
	begun := maps.Clone(j.begun)
	j.mu.Unlock()
	if !now && newest == j.clockSegment && at.real.Sub(j.clockNoted) < noteEvery {
		return
	}
	j.clockSegment, j.clockNoted = newest, at.real
	content, err := json.Marshal(clockNote{
		Boot: j.clock.boot, Uptime: at.up.Microseconds(),
		Wall: at.wall.UnixMicro(), Real: at.real.UnixMicro(), Segments: begun,
	})
	if err == nil {
		err = archive.Replace(filepath.Join(j.config.Dir, archive.ClockFile), append(content, '\n'))
	}
	if err != nil {
		j.config.Logger.Warn("history will be kept for longer after a crash", "error", fmt.Errorf("note the journal's clock: %w", err))
	}
}

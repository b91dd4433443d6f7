package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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

// The clock file says what the time line was when it was written, so that ages go on across
// restarts: by the boot clock within a boot, else by the wall clock, as far as it is plausible. It
// is not chained. Without it, as in journals of older versions, the stamps of the events are
// believed; where it is older than the events, those behind it count as of now, which keeps them
// for longer.

// clockNote is the clock file. Times are microseconds; those of the wall clock and the time line
// since 1970.
type clockNote struct {
	Boot   string `json:"boot"`   // the boot's name
	Uptime int64  `json:"uptime"` // since the boot
	Wall   int64  `json:"wall"`
	Real   int64  `json:"real"` // the time line then

	Segment int     `json:"segment"`          // the newest
	Begun   int64   `json:"begun,omitempty"`  // when its first event was appended, by the time line; 0: there is none
	Seq     uint64  `json:"seq"`              // the newest event
	Last    int64   `json:"last,omitempty"`   // when it was appended, by the time line
	Shifts  []shift `json:"shifts,omitempty"` // see ages
}

// startClock lets the time line go on where it was noted last. The newest segment is folded.
func (j *Log) startClock(begun time.Time) error {
	if j.clock.uptime == nil {
		j.ages = ages{begun: begun, last: j.state.Time}
		return nil
	}
	note, err := readClock(j.config.Dir)
	if err != nil {
		j.config.Logger.Warn("how much time passed since the worker ran last is not known; history is kept for longer", "error", err)
	}
	wall, up := j.clock.look()
	if note == nil {
		note = &clockNote{Wall: wall.UnixMicro(), Real: wall.UnixMicro()}
		if j.state.Seq > 0 { // of an older version
			note.Wall, note.Real = j.state.Time.UnixMicro(), j.state.Time.UnixMicro()
		}
		note.Segment, note.Seq, note.Last = j.newest.Number, j.state.Seq, note.Real
	}
	real, ahead := note.goOn(j.clock.boot, wall, up)
	j.clock.start(real, up, ahead)
	j.clock.read() // warns where it was set while nobody looked
	return j.recallAges(note, begun, real)
}

// goOn gives the time line's present, and by how much the wall clock is expected to be ahead of it.
func (n *clockNote) goOn(boot string, wall time.Time, up time.Duration) (real time.Time, ahead time.Duration) {
	then, before := momentOf(n.Real), momentOf(n.Wall)
	if passed := up - time.Duration(n.Uptime)*time.Microsecond; n.Boot != "" && n.Boot == boot && passed >= 0 {
		return then.Add(passed), before.Sub(then)
	}
	real = then.Add(min(max(wall.Sub(before), 0), plausibleGap))
	return real, wall.Sub(real)
}

// recallAges gives the ages that were noted; what was not noted then is of now.
func (j *Log) recallAges(note *clockNote, begun, real time.Time) error {
	a := ages{last: momentOf(note.Last), shifts: note.Shifts}
	if note.Seq != j.state.Seq {
		a.last = real
	}
	if note.Segment < j.newest.Number {
		before, err := j.newest.State()
		if err != nil {
			return err
		}
		a.end(note.Segment, before.Time, real)
	}
	switch {
	case begun.IsZero():
	case note.Segment == j.newest.Number && note.Begun != 0:
		a.begun = momentOf(note.Begun)
	default:
		if a.begun = a.ended(j.newest.Number, begun); a.begun.After(real) {
			a.begun = real
		}
	}
	j.ages = a
	return nil
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

// noteSegment has the clock file know the newest segment, so that the age of the one before is
// known after a crash.
func (j *Log) noteSegment() {
	j.mu.Lock()
	newest := j.newest.Number
	j.mu.Unlock()
	if j.clockNoted != newest {
		j.clockNoted = newest // a failure is logged once; the next try is watchClock's
		j.tryNoteClock()
	}
}

// tryNoteClock is noteClock where a failure only means that history will be kept for longer.
func (j *Log) tryNoteClock() {
	if err := j.noteClock(); err != nil {
		j.config.Logger.Warn("after a crash history will be kept for longer", "error", err)
	}
}

// noteClock replaces the file. Whatever a crash leaves is the file as it was, or the new one; both
// are true.
func (j *Log) noteClock() error {
	if j.clock.uptime == nil {
		return nil
	}
	j.noting.Lock()
	defer j.noting.Unlock()
	wall, up := j.clock.look()
	note := clockNote{
		Boot: j.clock.boot, Uptime: up.Microseconds(), Wall: wall.UnixMicro(), Real: j.clock.origin.Add(up).UnixMicro(),
	}
	j.mu.Lock()
	j.ages.forget(j.notes.Kept)
	note.Segment, note.Seq, note.Shifts = j.newest.Number, j.state.Seq, slices.Clone(j.ages.shifts)
	note.Last = j.ages.last.UnixMicro()
	if !j.ages.begun.IsZero() {
		note.Begun = j.ages.begun.UnixMicro()
	}
	j.mu.Unlock()
	content, err := json.Marshal(note)
	if err == nil {
		err = archive.Replace(filepath.Join(j.config.Dir, archive.ClockFile), append(content, '\n'))
	}
	if err != nil {
		return fmt.Errorf("note the journal's clock: %w", err)
	}
	return nil
}

// How often the wall clock is compared with what passed, where nothing is appended, and how often
// that is noted.
const (
	compareInterval = time.Minute
	noteEvery       = 60
)

// watchClock looks for jumps until ctx ends or the journal is closed.
func (j *Log) watchClock(ctx context.Context) {
	ticker := time.NewTicker(compareInterval)
	defer ticker.Stop()
	j.compareClock(ctx, ticker.C)
}

// compareClock looks for jumps at each tick. A failure to note is logged once, until it works
// again.
func (j *Log) compareClock(ctx context.Context, ticks <-chan time.Time) {
	failed := false
	for n, jumps := 1, j.clock.jumpCount(); ; n++ {
		select {
		case <-ticks:
		case <-ctx.Done():
			return
		case <-j.life.Done():
			return
		}
		j.clock.read()
		now := j.clock.jumpCount()
		if now == jumps && n%noteEvery != 0 && !failed {
			continue
		}
		err := j.noteClock()
		if err != nil && !failed {
			j.config.Logger.Warn("after a crash history will be kept for longer", "error", err)
		}
		if failed = err != nil; now != jumps {
			jumps = now
			j.wakeRun()
		}
	}
}

// momentOf is a time that the file has; 0 stands for no time.
func momentOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// shift says by how much the stamps at the ends of segments were ahead of the time line, from a
// segment on.
type shift struct {
	Segment int   `json:"segment"`
	By      int64 `json:"by"`
}

// ages is what happened when by the time line. Its zero value is of a journal without events.
type ages struct {
	begun  time.Time // the newest segment's first event; zero: there is none
	last   time.Time // the newest event
	shifts []shift
}

// leastShift is the difference between stamps and time line from which on it is noted.
const leastShift = time.Second

// end notes when a segment ended whose last event bears a stamp.
func (a *ages) end(segment int, stamped, real time.Time) {
	by, before := stamped.Sub(real), time.Duration(0)
	if n := len(a.shifts); n > 0 {
		before = time.Duration(a.shifts[n-1].By) * time.Microsecond
	}
	if (by - before).Abs() >= leastShift {
		a.shifts = append(a.shifts, shift{segment, by.Microseconds()})
	}
}

// ended is when a segment ended whose last event bears a stamp.
func (a *ages) ended(segment int, stamped time.Time) time.Time {
	for _, s := range slices.Backward(a.shifts) {
		if s.Segment <= segment {
			return stamped.Add(-time.Duration(s.By) * time.Microsecond)
		}
	}
	return stamped
}

// forget drops what is said of segments before kept only.
func (a *ages) forget(kept int) {
	for len(a.shifts) > 1 && a.shifts[1].Segment <= kept {
		a.shifts = a.shifts[1:]
	}
}

package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"jobd/journal/folder"
	"jobd/journal/segment"
)

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
	data, err := os.ReadFile(filepath.Join(dir, folder.ClockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	note := &clockNote{}
	if err == nil {
		err = json.Unmarshal(data, note)
	}
	if err != nil {
		return nil, fmt.Errorf("read journal's %s file: %w", folder.ClockFile, err)
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
	path := filepath.Join(j.config.Dir, folder.ClockFile)
	if err == nil {
		err = segment.WriteSynced(path+folder.PartialEnd, append(content, '\n'))
	}
	if err == nil {
		err = os.Rename(path+folder.PartialEnd, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("note the journal's clock: %w", err), segment.RemoveIfThere(path+folder.PartialEnd))
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

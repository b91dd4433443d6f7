package eventlog

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"jobd/journal/archive"
)

// The clock is set while the worker runs, which is then killed: the next one, on the same boot, is
// not deceived.
func TestClockSetBeforeAKill(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	j := m.open(t.TempDir())
	m.job(j)
	m.days(j, 2)
	m.set(-365 * day)
	m.days(j, 2) // their stamps stand still
	m.set(365 * day)
	m.job(j)
	j = m.open(copyFolder(t, j.config.Dir))
	m.segments(j, "started again", 5)
	m.days(j, 26)
	m.segments(j, "30 days", 30)
	m.days(j, 4)
	m.segments(j, "34 days", 30)
}

// A worker that is killed before the ends of segments are noted: they count as of the next start,
// whatever their stamps say.
func TestClockOfSegmentsThatEndedBeforeAKill(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	j := m.open(t.TempDir())
	m.job(j)
	m.maintain(j)
	m.set(-365 * day)
	for range 10 { // the stamps stand still, and nothing is noted
		m.pass(day)
		m.job(j)
	}
	m.set(365 * day)
	j = m.open(copyFolder(t, j.config.Dir))
	m.days(j, 25)
	m.segments(j, "35 days", 36)
	m.days(j, 5)
	m.segments(j, "40 days", 30)
}

// The same of events in a segment that goes on.
func TestClockOfEventsBeforeAKill(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	j := m.open(t.TempDir())
	m.job(j)
	m.maintain(j)
	m.set(-365 * day)
	m.pass(23 * time.Hour)
	m.job(j)
	m.set(365 * day)
	j = m.open(copyFolder(t, j.config.Dir))
	m.pass(2 * time.Hour)
	m.job(j)
	m.pass(month - day)
	m.maintain(j)
	m.segments(j, "the first segment ended 29 days and two hours ago", 2)
	m.pass(day)
	m.maintain(j)
	m.segments(j, "a day later", 1)
}

// After a boot only the clock tells how long the machine was off. It is believed as far as that is
// plausible.
func TestClockAcrossBoots(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		off  time.Duration
		held bool
		want int // segments, 28 days after the first ended
	}{
		"a night":         {12 * time.Hour, false, 30},
		"a long weekend":  {plausibleGap, false, 28},
		"two months":      {60 * day, true, 28},
		"before the last": {-60 * day, false, 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			j := m.open(t.TempDir())
			m.job(j)
			m.days(j, 2)
			mustClose(t, j)
			m.reboot(test.off)
			j = m.open(j.config.Dir)
			m.maintain(j)
			m.segments(j, "booted", 3)
			m.warned("booted", isHeld, map[bool]int{true: 1}[test.held])
			m.days(j, 28)
			m.segments(j, "28 days later", test.want)
		})
	}
}

// A journal of an older version has no clock file: its stamps are believed, and so is a plausible
// gap behind the last.
func TestClockOfAnOlderJournal(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"no file": "", "no JSON": "{", "of something else": "[]"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			j := m.open(t.TempDir())
			m.job(j)
			m.days(j, 29)
			mustClose(t, j)
			file := filepath.Join(j.config.Dir, archive.ClockFile)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if content != "" {
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m.set(90 * day)
			j = m.open(j.config.Dir)
			m.maintain(j)
			m.segments(j, "29 days, and three of a gap", 27)
			m.warned("started again", isHeld, 1)
			m.days(j, 10)
			m.segments(j, "ten days later", 27)
		})
	}
}

// An idle worker notices that the clock was set, too.
func TestClockOfAnIdleJournalIsWatched(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := t.TempDir()
	j := m.open(dir)
	m.job(j)
	m.days(j, 3)
	select {
	case <-j.nudge:
	default:
	}
	ctx, stop := context.WithCancel(t.Context())
	ticks, ended := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(ended)
		j.compareClock(ctx, ticks)
	}()
	m.set(60 * day)
	ticks <- time.Time{}
	ticks <- time.Time{} // the first one is done with
	stop()
	<-ended
	m.warned("a minute later", setForward, 1)
	select {
	case <-j.nudge:
	default:
		t.Error("Run was not woken to say what is held")
	}
}

// Where the clock file can't be written the journal works, says so once a segment, and closes in
// order.
func TestClockFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	j := m.open(t.TempDir())
	if err := os.MkdirAll(filepath.Join(j.config.Dir, archive.ClockFile, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.job(j)
	m.days(j, 3)
	m.maintain(j)
	m.segments(j, "three days later", 4)
	m.warned("three days later", "after a crash history will be kept for longer", 3)
	mustClose(t, j)
	j = m.open(j.config.Dir)
	m.warned("opened again", "history is kept for longer", 1)
	m.days(j, 30)
	m.segments(j, "33 days later", 30)
}

// The system's clocks, as they are used without any others.
func TestClockOfTheSystem(t *testing.T) {
	t.Parallel()
	k := newClock(&Config{Logger: slog.New(slog.DiscardHandler)})
	if k.boot == "" {
		t.Error("the boot has no name")
	}
	wall, up := k.look()
	k.start(wall, up, 0)
	first, second := k.read(), k.read()
	if up <= 0 || second.real.Before(first.real) || second.real.Sub(second.wall).Abs() > time.Second {
		t.Errorf("up %v, then %v, then %v", up, first, second)
	}
}

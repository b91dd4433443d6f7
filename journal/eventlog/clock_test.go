package eventlog

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/journal/archive"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// machine has a clock that can be set, and one that can't. It can be booted. Its journal keeps its history
// for a month.
type machine struct {
	t    testing.TB
	wall time.Time
	up   time.Duration
	boot string
	said bytes.Buffer
	dir  string
	log  *Log
}

// pass lets time really pass.
func (m *machine) pass(d time.Duration) { m.wall, m.up = m.wall.Add(d), m.up+d }

// set sets the clock.
func (m *machine) set(by time.Duration) { m.wall = m.wall.Add(by) }

// reboot turns the machine off for a while.
func (m *machine) reboot(off time.Duration) {
	m.wall, m.up, m.boot = m.wall.Add(off), time.Minute, m.boot+"+"
}

// day is how old a segment becomes, month how long it is kept.
const (
	day   = 24 * time.Hour
	month = 30 * day
)

func (m *machine) open() {
	m.t.Helper()
	m.log = openWith(m.t, Config{
		Dir: m.dir, Now: func() time.Time { return m.wall }, uptime: func() time.Duration { return m.up }, bootID: m.boot,
		SegmentAge: day, Retention: month, Logger: slog.New(slog.NewTextHandler(&m.said, nil)),
	})
}

// stop stops the worker in order, kill as a crash does.
func (m *machine) stop() { m.t.Helper(); mustClose(m.t, m.log) }
func (m *machine) kill() { m.t.Helper(); m.dir = copyFolder(m.t, m.dir) }

// days lets so many days pass, with a job and a look at what is old on each.
func (m *machine) days(n int) {
	m.t.Helper()
	for range n {
		m.pass(day)
		m.job()
		mustMaintain(m.t, m.log)
	}
}

func (m *machine) job() {
	m.t.Helper()
	events := mustAppend(m.t, m.log, wholeLife(int64(snapshotSeq(m.log)+1))...)
	m.log.SetPosition(events[len(events)-1].Seq)
}

// segments asserts how many segments there are after a look at what is old.
func (m *machine) segments(when string, want int) {
	m.t.Helper()
	mustMaintain(m.t, m.log)
	if _, got := m.log.Usage(); got != want {
		m.t.Errorf("%s: %d segments, want %d; the log:\n%s", when, got, want, &m.said)
	}
}

// warned asserts how often the log says something, and forgets what it said.
func (m *machine) warned(when, text string, want int) {
	m.t.Helper()
	if got := strings.Count(m.said.String(), text); got != want {
		m.t.Errorf("%s: %q was said %d times, want %d:\n%s", when, text, got, want, &m.said)
	}
	m.said.Reset()
}

const (
	setForward = `level=WARN msg="the clock was set forward`
	setBack    = `level=WARN msg="the clock was set back`
)

// rewritten has a stopped worker's clock file hold something else; nothing: there is none.
func (m *machine) rewritten(content []byte) {
	m.t.Helper()
	file := filepath.Join(m.dir, archive.ClockFile)
	must.Do(m.t, os.Remove(file))
	if content != nil {
		must.Do(m.t, os.WriteFile(file, content, 0o600))
	}
}

// stoppedMeanwhile is a story of a worker that is started again on the same boot: it goes by the boot clock,
// whatever was done to the clock meanwhile.
func stoppedMeanwhile(m *machine, stop func()) {
	m.days(3)
	stop()
	m.set(60 * day)
	m.pass(time.Hour)
	m.open()
	m.segments("started again", 4)
	m.warned("started again", setForward, 1)
	m.days(20)
	stop()
	m.open()
	m.days(7)
	m.segments("30 days later", 31)
	m.days(3)
	m.segments("33 days later", 31)
	m.warned("all that time", setForward, 0)
}

// acrossABoot is a story of a boot, after which only the clock tells how long the machine was off: that is
// believed as far as it is plausible. want is how many segments there are 28 days after the first ended.
func acrossABoot(off time.Duration, want int) func(*machine) {
	return func(m *machine) {
		m.days(2)
		m.stop()
		m.reboot(off)
		m.open()
		m.segments("booted", 3)
		m.days(28)
		m.segments("28 days later", want)
	}
}

// withoutAClock is a story of a journal of an older version, which has no clock file: its stamps are believed,
// and so is a plausible gap behind the last.
func withoutAClock(content []byte) func(*machine) {
	return func(m *machine) {
		m.days(29)
		m.stop()
		m.rewritten(content)
		m.set(90 * day)
		m.open()
		m.segments("29 days, and three of a gap", 27)
		m.days(10)
		m.segments("ten days later", 27)
	}
}

// Whatever is done to the clock, nothing is removed early, and nothing is kept for ever. Each story begins with
// a job in the first segment.
func TestClock(t *testing.T) {
	t.Parallel()
	for name, story := range map[string]func(m *machine){
		"set forward": func(m *machine) {
			m.days(3)
			m.segments("before", 4)
			m.warned("before", "level=WARN", 0)
			m.set(60 * day)
			mustMaintain(m.t, m.log)
			m.segments("the clock was set", 4)
			check.Contains(m.t, m.said.String(), "by=1440h0m0s", "the amount is missing")
			m.warned("the clock was set", setForward, 1)
			m.days(26)
			m.segments("29 days later", 30)
			m.days(5)
			m.segments("34 days later", 31)
			m.warned("all that time", "level=WARN", 0)
		},
		"set forward, and right again": func(m *machine) {
			m.set(400 * day)
			m.days(2)
			m.warned("set forward", setForward, 1)
			m.set(-400 * day)
			m.days(2)
			m.warned("set right", setBack, 1)
			m.segments("four days", 5)
			m.days(30)
			m.segments("34 days", 31)
		},
		"set back, and right again": func(m *machine) { // segments begin and go as time really passes
			m.set(-365 * day)
			m.days(3)
			m.warned("set back", setBack, 1)
			m.segments("three days later", 4)
			m.days(32)
			m.segments("35 days later", 31)
			m.set(365 * day)
			m.segments("set right again", 31)
			m.warned("set right again", setForward, 1)
			m.days(1)
			m.segments("a day later", 31)
		},
		"set while the worker was stopped": func(m *machine) { stoppedMeanwhile(m, m.stop) },
		"set while the worker was killed":  func(m *machine) { stoppedMeanwhile(m, m.kill) },
		"set before a kill": func(m *machine) { // the next one, on the same boot, is not deceived
			m.days(2)
			m.set(-365 * day)
			m.days(2) // their stamps stand still
			m.set(365 * day)
			m.job()
			m.kill()
			m.open()
			_, got := m.log.Usage()
			check.Equal(m.t, got, 5, "started again: … segments")
			m.days(26)
			m.segments("30 days", 31)
			m.days(4)
			m.segments("34 days", 31)
		},
		"segments that ended before a kill": func(m *machine) { // they count as of the next start, whatever their stamps say
			mustMaintain(m.t, m.log)
			m.set(-365 * day)
			for range 10 { // the stamps stand still, and nothing is noted
				m.pass(day)
				m.job()
			}
			m.set(365 * day)
			m.kill()
			m.open()
			m.days(25)
			m.segments("35 days", 36)
			m.days(5)
			m.segments("40 days", 31)
		},
		"events before a kill": func(m *machine) { // in a segment that goes on
			mustMaintain(m.t, m.log)
			m.set(-365 * day)
			m.pass(23 * time.Hour)
			m.job()
			m.set(365 * day)
			m.kill()
			m.open()
			m.pass(2 * time.Hour)
			m.job()
			m.pass(month - day)
			m.segments("the first segment ended 29 days and two hours ago", 2)
			m.pass(day)
			m.segments("a day later", 1)
		},
		"off for a night":          acrossABoot(12*time.Hour, 31),
		"off for a long weekend":   acrossABoot(plausibleGap, 29),
		"off for two months":       acrossABoot(60*day, 29),
		"booted before the last":   acrossABoot(-60*day, 31),
		"no clock file":            withoutAClock(nil),
		"a clock file of no JSON":  withoutAClock([]byte("{")),
		"a file of something else": withoutAClock([]byte("[]")),
		"booted after it was written": func(m *machine) { // says the file, which is no reason to remove history
			m.days(2)
			m.stop()
			note := must.Get(readClock(m.dir))(m.t)
			note.Uptime = -(400 * day).Microseconds()
			m.rewritten(must.Get(json.Marshal(note))(m.t))
			m.open()
			m.segments("started again", 3)
		},
		"a file that can't be written": func(m *machine) { // the journal works, says so once a segment, and closes in order
			must.Do(m.t, os.MkdirAll(filepath.Join(m.dir, archive.ClockFile, "in the way"), 0o700))
			m.job()
			m.days(3)
			m.segments("three days later", 4)
			m.warned("three days later", "history will be kept for longer after a crash", 3)
			m.stop()
			m.open()
			m.warned("opened again", "history is kept for longer", 1)
			m.days(30)
			m.segments("33 days later", 31)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &machine{t: t, wall: base, up: time.Hour, boot: "first", dir: t.TempDir()}
			m.open()
			m.job()
			story(m)
			must.Get(verifyAll(t.Context(), openReader(t, m.dir)))(t)
		})
	}
}

// The system's clocks, as they are used without any others.
func TestClockOfTheSystem(t *testing.T) {
	t.Parallel()
	k := newClock(&Config{Logger: slog.New(slog.DiscardHandler)})
	if k.boot == "" {
		t.Error("the boot has no name")
	}
	at := k.instant()
	k.origin = at.wall.Add(-at.up)
	first, second := k.read(), k.read()
	if at.up <= 0 || second.real.Before(first.real) || second.real.Sub(second.wall).Abs() > time.Second {
		t.Errorf("up %v, then %v, then %v", at.up, first, second)
	}
}

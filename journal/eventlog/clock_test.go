package eventlog

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/journal"
)

// machine has a clock that can be set, and one that can't. It can be booted.
type machine struct {
	t    testing.TB
	mu   sync.Mutex
	wall time.Time
	up   time.Duration
	boot string
	said bytes.Buffer
}

func newMachine(t testing.TB) *machine {
	return &machine{t: t, wall: base, up: time.Hour, boot: "first"}
}

func (m *machine) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wall
}

func (m *machine) uptime() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.up
}

// pass lets time really pass.
func (m *machine) pass(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.up = m.wall.Add(d), m.up+d
}

// set sets the clock.
func (m *machine) set(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall = m.wall.Add(by)
}

// reboot turns the machine off for a while.
func (m *machine) reboot(off time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.up, m.boot = m.wall.Add(off), time.Minute, m.boot+"+"
}

// day is how old a segment becomes, month how long it is kept.
const (
	day   = 24 * time.Hour
	month = 30 * day
)

// open opens a journal on the machine, which keeps its history for a month.
func (m *machine) open(dir string) *Log {
	m.t.Helper()
	return openWith(m.t, Config{
		Dir: dir, Now: m.now, uptime: m.uptime, bootID: m.boot, SegmentAge: day, Retention: month,
		Logger: slog.New(slog.NewTextHandler(&m.said, nil)),
	})
}

// days lets so many days pass, with a job and a look at what is old on each.
func (m *machine) days(j *Log, n int) {
	m.t.Helper()
	for range n {
		m.pass(day)
		m.job(j)
		m.maintain(j)
	}
}

func (m *machine) job(j *Log) {
	m.t.Helper()
	var next int64
	j.View(func(s *journal.State) { next = int64(s.Seq) + 1 })
	events := mustAppend(m.t, j, wholeLife(next)...)
	j.SetPosition(events[len(events)-1].Seq)
}

func (m *machine) maintain(j *Log) {
	m.t.Helper()
	if err := j.Maintain(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// segments asserts how many segments there are.
func (m *machine) segments(j *Log, when string, want int) {
	m.t.Helper()
	if _, got := j.Usage(); got != want {
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
	isHeld     = `level=WARN msg="a segment of the journal is old enough to go by the clock`
)

// A clock set forward beyond the retention removes nothing early, says so once, and keeps nothing
// for ever.
func TestClockSetForwardRemovesNothingEarly(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	j := m.open(t.TempDir())
	m.job(j)
	m.days(j, 3)
	m.segments(j, "before", 4)
	m.warned("before", "level=WARN", 0)
	m.set(60 * day)
	m.maintain(j)
	m.maintain(j)
	m.segments(j, "the clock was set", 4)
	if said := m.said.String(); !strings.Contains(said, "by=1440h0m0s") || !strings.Contains(said, "left=648h0m0s until=2027-0") {
		t.Errorf("the amount, or the end of the hold, is missing:\n%s", said)
	}
	if got := strings.Count(m.said.String(), isHeld); got != 1 {
		t.Errorf("the hold was told %d times:\n%s", got, &m.said)
	}
	m.warned("the clock was set", setForward, 1)
	m.days(j, 26)
	m.segments(j, "29 days later", 30)
	m.days(j, 5)
	m.segments(j, "34 days later", 30)
	m.warned("all that time", "level=WARN", 0)
	if _, err := verifyAll(t.Context(), openReader(t, j.config.Dir)); err != nil {
		t.Error(err)
	}
}

// Set right again, the clock is as good as it was, and what was stamped meanwhile is neither
// removed early nor kept for ever.
func TestClockSetForwardAndRightAgain(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	j := m.open(t.TempDir())
	m.job(j)
	m.set(400 * day)
	m.days(j, 2)
	m.warned("set forward", setForward, 1)
	m.set(-400 * day)
	m.days(j, 2)
	m.warned("set right", setBack, 1)
	m.segments(j, "four days", 5)
	m.days(j, 30)
	m.segments(j, "34 days", 30)
}

// While the clock is behind, segments begin and go as time really passes; set right again, nothing
// goes early.
func TestClockSetBackKeepsNoSegmentFromRolling(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	j := m.open(t.TempDir())
	m.job(j)
	m.set(-365 * day)
	m.days(j, 3)
	m.warned("set back", setBack, 1)
	m.segments(j, "three days later", 4)
	m.days(j, 32)
	m.segments(j, "35 days later", 30)
	m.set(365 * day)
	m.maintain(j)
	m.segments(j, "set right again", 30)
	m.warned("set right again", setForward, 1)
	m.days(j, 1)
	m.segments(j, "a day later", 30)
}

// A worker that is started again on the same boot goes by the boot clock, whatever was done to the
// clock meanwhile.
func TestClockSetWhileTheWorkerWasStopped(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*testing.T, *Log) string{
		"stopped in order": func(t *testing.T, j *Log) string { mustClose(t, j); return j.config.Dir },
		"killed":           func(t *testing.T, j *Log) string { return copyFolder(t, j.config.Dir) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			j := m.open(t.TempDir())
			m.job(j)
			m.days(j, 3)
			dir := stop(t, j)
			m.set(60 * day)
			m.pass(time.Hour)
			j = m.open(dir)
			m.maintain(j)
			m.segments(j, "started again", 4)
			if !strings.Contains(m.said.String(), isHeld) {
				t.Errorf("the hold is not told:\n%s", &m.said)
			}
			m.warned("started again", setForward, 1)
			m.days(j, 20)
			j = m.open(stop(t, j))
			m.days(j, 7)
			m.segments(j, "30 days later", 30)
			m.days(j, 3)
			m.segments(j, "33 days later", 30)
			m.warned("all that time", setForward, 0)
		})
	}
}

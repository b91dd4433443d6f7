package eventlog

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
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
	must.Do(m.t, j.Maintain(m.t.Context()))
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
	check.Contains(t, m.said.String(), "by=1440h0m0s", "the amount is missing")
	m.warned("the clock was set", setForward, 1)
	m.days(j, 26)
	m.segments(j, "29 days later", 30)
	m.days(j, 5)
	m.segments(j, "34 days later", 31)
	m.warned("all that time", "level=WARN", 0)
	must.Get(verifyAll(t.Context(), openReader(t, j.config.Dir)))(t)
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
	m.segments(j, "34 days", 31)
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
	m.segments(j, "35 days later", 31)
	m.set(365 * day)
	m.maintain(j)
	m.segments(j, "set right again", 31)
	m.warned("set right again", setForward, 1)
	m.days(j, 1)
	m.segments(j, "a day later", 31)
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
			m.warned("started again", setForward, 1)
			m.days(j, 20)
			j = m.open(stop(t, j))
			m.days(j, 7)
			m.segments(j, "30 days later", 31)
			m.days(j, 3)
			m.segments(j, "33 days later", 31)
			m.warned("all that time", setForward, 0)
		})
	}
}

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
	m.segments(j, "30 days", 31)
	m.days(j, 4)
	m.segments(j, "34 days", 31)
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
	m.segments(j, "40 days", 31)
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
		want int // segments, 28 days after the first ended
	}{
		"a night":         {12 * time.Hour, 31},
		"a long weekend":  {plausibleGap, 29},
		"two months":      {60 * day, 29},
		"before the last": {-60 * day, 31},
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
			must.Do(t, os.Remove(file))
			if content != "" {
				must.Do(t, os.WriteFile(file, []byte(content), 0o600))
			}
			m.set(90 * day)
			j = m.open(j.config.Dir)
			m.maintain(j)
			m.segments(j, "29 days, and three of a gap", 27)
			m.days(j, 10)
			m.segments(j, "ten days later", 27)
		})
	}
}

// A clock file that says that this boot began after it was written: history is not removed for that.
func TestClockOfADamagedFile(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	j := m.open(t.TempDir())
	m.job(j)
	m.days(j, 2)
	mustClose(t, j)
	note := must.Get(readClock(j.config.Dir))(t)
	note.Uptime = -(400 * day).Microseconds()
	content, err := json.Marshal(note)
	if err == nil {
		err = os.WriteFile(filepath.Join(j.config.Dir, archive.ClockFile), content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	j = m.open(j.config.Dir)
	m.maintain(j)
	m.segments(j, "started again", 3)
}

// Where the clock file can't be written the journal works, says so once a segment, and closes in
// order.
func TestClockFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	j := m.open(t.TempDir())
	must.Do(t, os.MkdirAll(filepath.Join(j.config.Dir, archive.ClockFile, "in the way"), 0o700))
	m.job(j)
	m.days(j, 3)
	m.maintain(j)
	m.segments(j, "three days later", 4)
	m.warned("three days later", "history will be kept for longer after a crash", 3)
	mustClose(t, j)
	j = m.open(j.config.Dir)
	m.warned("opened again", "history is kept for longer", 1)
	m.days(j, 30)
	m.segments(j, "33 days later", 31)
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

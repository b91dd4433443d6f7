package journaltest

import (
	"context"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest/readtest"
)

// Log is a log whose clock the test moves. It is closed with the test.
type Log struct {
	*eventlog.Log
	Dir    string
	Now    func() time.Time // what the clock says, without what Roll has added
	config eventlog.Config
	ahead  time.Duration
}

// OpenTest opens the log in a folder.
func OpenTest(t testing.TB, dir string) *Log {
	t.Helper()
	return OpenWith(t, eventlog.Config{Dir: dir})
}

// OpenWith opens a log.
func OpenWith(t testing.TB, c eventlog.Config) *Log {
	t.Helper()
	j := &Log{Dir: c.Dir, Now: c.Now, config: c}
	if j.Now == nil {
		j.Now = time.Now
	}
	j.open(t)
	return j
}

func (j *Log) open(t testing.TB) {
	t.Helper()
	c := j.config
	c.Now = func() time.Time { return j.Now().Add(j.ahead) }
	log, err := eventlog.Open(context.Background(), c)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = log.Close() })
	j.Log = log
}

// Reopen closes the log, and opens it again with another configuration.
func (j *Log) Reopen(t testing.TB, change func(*eventlog.Config)) {
	t.Helper()
	MustClose(t, j)
	change(&j.config)
	j.open(t)
}

// At stops the clock at a time.
func (j *Log) At(at time.Time) { j.Now, j.ahead = func() time.Time { return at }, 0 }

// Day is how old a segment becomes where the configuration says nothing else.
const Day = 24 * time.Hour

// Roll lets the next append begin a new segment: a day passes.
func Roll(_ testing.TB, j *Log) { j.ahead += Day }

// Rolled is a log whose segments have so many appends of whole lives each.
func Rolled(t testing.TB, segments, lives int) *Log {
	t.Helper()
	j := OpenWith(t, eventlog.Config{Dir: t.TempDir(), Now: readtest.Ticking()})
	for s := range segments {
		if s > 0 {
			Roll(t, j)
		}
		for n := range lives {
			job := int64(s*lives + n + 1)
			MustAppend(t, j, readtest.WholeLife(job)...)
			MustAppend(t, j, journal.Draft{Job: job + 1_000_000, Payload: journal.Accepted{Target: "t", Token: "@waiting"}})
		}
	}
	return j
}

// ClosedJournal is a journal of so many whole jobs, closed, whose mirror stands at event 2.
func ClosedJournal(t testing.TB, jobs int64) string {
	t.Helper()
	dir := t.TempDir()
	j := OpenTest(t, dir)
	for job := range jobs {
		MustAppend(t, j, readtest.WholeLife(job+1)...)
	}
	j.SetPosition(2)
	MustClose(t, j)
	return dir
}

// Large is a closed journal of 40,000 events in two segments, the first of which is sealed.
func Large(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	j := OpenWith(t, eventlog.Config{Dir: dir, Now: readtest.Ticking()})
	for half := range int64(2) {
		for batch := range int64(20) {
			var drafts []journal.Draft
			for job := range int64(250) {
				drafts = append(drafts, readtest.WholeLife(1+half*5000+batch*250+job)...)
			}
			MustAppend(t, j, drafts...)
		}
		if half == 0 {
			Roll(t, j)
		}
	}
	j.SetPosition(40_000)
	MustMaintain(t, j)
	MustClose(t, j)
	return dir
}

// MustAppend appends.
func MustAppend(t testing.TB, j *Log, drafts ...journal.Draft) []journal.Event {
	t.Helper()
	events, err := j.Append(drafts...)
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	return events
}

// MustMaintain seals and removes what is due.
func MustMaintain(t testing.TB, j *Log) {
	t.Helper()
	if err := j.Maintain(t.Context()); err != nil {
		t.Fatalf("Maintain: %v", err)
	}
}

// MustClose closes the log.
func MustClose(t testing.TB, j *Log) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

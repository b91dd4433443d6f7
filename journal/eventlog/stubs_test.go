package eventlog

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/journaltest/readtest"
	"jobd/store/storetest/must"
)

// TestMain is also the other processes of these tests: see children in process_test.go.
func TestMain(m *testing.M) {
	if child, ok := children()[os.Getenv(childVariable)]; ok {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

// What these tests share with those of readers.
const segmentFile = readtest.SegmentFile

var (
	base       = readtest.Base
	ticking    = readtest.Ticking
	wholeLife  = readtest.WholeLife
	openReader = readtest.OpenReader
	events     = readtest.Events
	copyFolder = readtest.CopyFolder
	names      = readtest.Names
	verifyAll  = readtest.VerifyAll
	verdictOn  = readtest.VerdictOn
)

func snapshot(j *Log) journal.State { return readtest.Snapshot(j) }

func openTest(t testing.TB, dir string) *Log {
	t.Helper()
	return openWith(t, Config{Dir: dir})
}

func openWith(t testing.TB, c Config) *Log {
	t.Helper()
	j := must.Get(Open(context.Background(), c))(t)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func mustAppend(t testing.TB, j *Log, drafts ...journal.Draft) []journal.Event {
	t.Helper()
	events := must.Get(j.Append(drafts...))(t)
	return events
}

func mustClose(t testing.TB, j *Log) {
	t.Helper()
	must.Do(t, j.Close(), "Close")
}

// eventually waits for a condition that nothing signals.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	deadline := time.After(2 * time.Minute)
	for !condition() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Errorf("it never came to be that %s", what)
			return
		}
	}
}

// noise is bytes that do not compress, the same each time.
func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// faultyDisk counts the commits, and fails or waits where it is told to.
type faultyDisk struct {
	disk
	before  func([]archive.Record) error // called before each commit
	after   func() error                 // called after each commit that succeeded
	folding error                        // of each checkpoint
	commits int

	beginning error // of beginning the next segment
	begunWith error // told although the next segment was begun
	begun     int   // how often the next segment was to begin
}

func (d *faultyDisk) next(h archive.Header, position uint64) (disk, error) {
	d.begun++
	if d.beginning != nil {
		return nil, d.beginning
	}
	next, err := d.disk.next(h, position)
	if err == nil && d.begunWith != nil {
		return nil, errors.Join(d.begunWith, next.Close())
	}
	return next, err
}

func (d *faultyDisk) Checkpoint(bound int64) error {
	if d.folding != nil {
		return d.folding
	}
	return d.disk.Checkpoint(bound)
}

func (d *faultyDisk) Append(records []archive.Record, position *uint64) error {
	if d.before != nil {
		if err := d.before(records); err != nil {
			return err
		}
	}
	d.commits++
	if err := d.disk.Append(records, position); err != nil || d.after == nil {
		return err
	}
	return d.after()
}

func makeFaulty(j *Log) *faultyDisk {
	d := &faultyDisk{disk: j.disk}
	j.disk = d
	return d
}

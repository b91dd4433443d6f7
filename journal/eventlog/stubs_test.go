package eventlog

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/replay"
	"jobd/journal/verify"
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

func openReader(t testing.TB, dir string) *replay.Reader {
	t.Helper()
	r := must.Get(replay.Open(dir))(t)
	return r
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

// wholeLife is a job's way from its claim to its end.
func wholeLife(job int64) []journal.Draft {
	code := int(job % 3)
	return []journal.Draft{
		{Job: job, Payload: journal.Accepted{Target: "t", Token: "@abcdefghi"}},
		{Job: job, Payload: journal.Running{Attempt: 1}},
		{Job: job, Payload: journal.Started{Pid: int(job), StartTime: 12345, BootID: "boot"}},
		{Job: job, Payload: journal.Done{Result: "ok", Code: &code, Stdout: journal.Output{Kept: []byte("out"), Size: 3}}},
	}
}

// events reads everything that the filter selects.
func events(t testing.TB, r *replay.Reader, f journal.Filter) []journal.Event {
	t.Helper()
	var all []journal.Event
	for e, err := range r.Events(context.Background(), f) {
		if err != nil {
			t.Fatalf("Events: %v", err)
		}
		all = append(all, e)
	}
	return all
}

// snapshot copies the state, as a View's may not be kept.
func snapshot(j *Log) (copied journal.State) {
	j.View(func(s *journal.State) {
		data, err := journal.EncodeCheckpoint(s)
		if err != nil {
			panic(err)
		}
		state, err := journal.DecodeCheckpoint(data)
		if err != nil {
			panic(err)
		}
		copied = *state
		copied.Seq, copied.Hash = s.Seq, s.Hash
	})
	return copied
}

// copyFolder copies the files of a journal, whoever has them open.
func copyFolder(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	must.Do(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

// segmentFile is the first segment's database.
const segmentFile = "segment-00000001.db"

// noise is bytes that do not compress, the same each time.
func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// verifyAll verifies the whole history, and gives the state after it.
func verifyAll(ctx context.Context, r *replay.Reader) (*journal.State, error) {
	audited, err := verify.Audit(ctx, r.Folder(), nil, nil)
	return audited.State, err
}

// base is when the tests' journals begin; their clock ticks by a second.
var base = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)

func ticking() func() time.Time {
	now := base.Add(-time.Second)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
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

// tamper runs statements on the database with the guards off.
func tamper(statements ...string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		db := archive.OpenForWriting(filepath.Join(dir, segmentFile))
		defer db.Close()
		guards := make([]string, 2)
		for i, name := range []string{"records_no_update", "records_no_delete"} {
			must.Do(t, db.QueryRow(`SELECT sql FROM sqlite_schema WHERE name = ?`, name).Scan(&guards[i]))
			statements = slices.Concat([]string{`DROP TRIGGER ` + name}, statements, guards[i:i+1])
		}
		for _, statement := range statements {
			if _, err := db.Exec(statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
}

// verify is what an auditor does.
func verdictOn(ctx context.Context, dir string) error {
	r, err := replay.Open(dir)
	if err != nil {
		return err
	}
	_, err = verifyAll(ctx, r)
	return err
}

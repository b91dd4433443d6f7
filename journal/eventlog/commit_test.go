package eventlog

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
)

func TestAppendersShareCommits(t *testing.T) {
	t.Parallel()
	const appenders, each = 64, 20
	dir := t.TempDir()
	j := openTest(t, dir)
	d := makeFaulty(j)
	d.before = func(first []archive.Record) error {
		if d.commits == 0 {
			eventually(t, "all others wait for the first commit", func() bool { return waiting(j) == appenders-len(first)/4 })
		}
		return nil
	}
	var group sync.WaitGroup
	all := make([][][]journal.Event, appenders)
	for a := range appenders {
		group.Go(func() {
			for n := range each {
				got, err := j.Append(wholeLife(int64(a*each + n + 1))...)
				if err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				all[a] = append(all[a], got)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	if d.commits >= appenders*each/2 {
		t.Errorf("%d commits for %d appends", d.commits, appenders*each)
	}
	mustClose(t, j)
	checkOrder(t, all)
	r := openReader(t, dir)
	state, err := verifyAll(t.Context(), r)
	if err != nil || state.Seq != appenders*each*4 {
		t.Fatalf("the journal ends at %d: %v", state.Seq, err)
	}
}

func waiting(j *Log) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.waiting)
}

// checkOrder asserts that every append's events stand next to each other in their order,
// and that an appender's appends follow each other.
func checkOrder(t *testing.T, all [][][]journal.Event) {
	t.Helper()
	seen := make(map[uint64]bool)
	for _, appends := range all {
		var last uint64
		for _, events := range appends {
			for i, e := range events {
				if e.Seq <= last || i > 0 && e.Seq != last+1 || seen[e.Seq] || e.Kind() != wholeLife(e.Job)[i].Payload.Kind() {
					t.Fatalf("event %d (%s) after %d", e.Seq, e.Kind(), last)
				}
				last, seen[e.Seq] = e.Seq, true
			}
		}
	}
}

// More than one commit should bear is left to the next, and its leader is called.
func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	for job := range int64(maxGroup + 2) {
		j.waiting = append(j.waiting, newAppending([]journal.Draft{{Job: job + 1, Payload: journal.Accepted{Target: "t"}}}))
	}
	j.leading = true
	group := j.waiting
	j.commit()
	if state := snapshot(j); state.Seq != maxGroup || waiting(j) != 2 || !j.leading {
		t.Fatalf("%d events, %d appends wait", state.Seq, waiting(j))
	}
	j.await(group[maxGroup])
	if e := group[maxGroup+1].events; len(e) != 1 || e[0].Seq != maxGroup+2 || j.leading {
		t.Fatalf("the last append got %+v", e)
	}
}

func TestTimeNeverRunsBackwards(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 14, 0, 0, 1999, time.FixedZone("east", 3600))
	j := openWith(t, Config{Dir: t.TempDir(), Now: func() time.Time {
		now = now.Add(-time.Minute)
		return now
	}})
	first := mustAppend(t, j, journal.Draft{Job: 0, Payload: journal.Closed{}})[0]
	for range 3 {
		if e := mustAppend(t, j, journal.Draft{Job: 0, Payload: journal.Closed{}})[0]; !e.Time.Equal(first.Time) {
			t.Fatalf("event %d at %s after %s", e.Seq, e.Time, first.Time)
		}
	}
	if first.Time.Location() != time.UTC || first.Time.Nanosecond() != 1000 {
		t.Fatalf("time %s is not UTC in whole microseconds", first.Time)
	}
}

func TestEmptyAppend(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	d := makeFaulty(j)
	if events, err := j.Append(); err != nil || len(events) != 0 || d.commits != 0 {
		t.Fatalf("%v, %v, %d commits", events, err, d.commits)
	}
	if err := j.Rest(); err != nil || d.commits != 0 {
		t.Fatalf("Rest with nothing noted: %v, %d commits", err, d.commits)
	}
}

func TestPositionIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		write func(*Log) error
		want  uint64
	}{
		"by Rest":            {func(j *Log) error { return j.Rest() }, 3},
		"by the next commit": {func(j *Log) error { _, err := j.Append(journal.Draft{Job: 0, Payload: journal.Closed{}}); return err }, 3},
		"not before":         {func(*Log) error { return nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			j := openTest(t, dir)
			mustAppend(t, j, wholeLife(1)...)
			j.SetPosition(3)
			j.SetPosition(2) // never goes back
			if err := c.write(j); err != nil {
				t.Fatal(err)
			}
			crashed := copyFolder(t, dir)
			if got, err := positionOnDisk(t, crashed); err != nil || got != c.want {
				t.Fatalf("position %d, %v; want %d", got, err, c.want)
			}
			mustClose(t, j) // writes it in any case
			if again := openTest(t, dir); again.Position() != 3 {
				t.Fatalf("position %d after Close", again.Position())
			}
		})
	}
	t.Run("not beyond the end", func(t *testing.T) {
		t.Parallel()
		j := openTest(t, t.TempDir())
		mustAppend(t, j, journal.Draft{Job: 0, Payload: journal.Closed{}})
		if j.SetPosition(99); j.Position() != 1 {
			t.Fatalf("position %d", j.Position())
		}
	})
}

// A position that moves on is not written with each commit. What asks for it gets it, also in a
// commit with others.
func TestPositionIsWrittenFromTimeToTime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	dir := t.TempDir()
	j := openWith(t, Config{Dir: dir, Now: func() time.Time { return now }})
	disk := makeFaulty(j)
	appendShown := func(job int64) {
		t.Helper()
		mustAppend(t, j, wholeLife(job)...)
		j.SetPosition(uint64(4 * job))
	}
	want := func(what string, position uint64) {
		t.Helper()
		if got, err := positionOnDisk(t, dir); err != nil || got != position {
			t.Errorf("%s: position %d, %v; want %d", what, got, err, position)
		}
	}
	appendShown(1)
	appendShown(2)
	want("first commit with one", 4)
	appendShown(3)
	want("again at once", 4)
	now = now.Add(noteInterval)
	appendShown(4)
	want("later", 12)
	now = now.Add(-time.Hour)
	appendShown(5)
	want("the clock was set back", 16)
	appendShown(6)
	want("again at once", 16)

	// Rest and an append share a commit: both wait for the one before.
	entered, goOn := make(chan struct{}), make(chan struct{})
	disk.before = func([]archive.Record) error {
		disk.before = nil
		close(entered)
		<-goOn
		return nil
	}
	var group sync.WaitGroup
	group.Go(func() { mustAppend(t, j, wholeLife(7)...) })
	<-entered
	group.Go(func() { mustAppend(t, j, wholeLife(8)...) })
	group.Go(func() {
		if err := j.Rest(); err != nil {
			t.Error(err)
		}
	})
	awaitWaiting(t, j, 2)
	close(goOn)
	group.Wait()
	want("Rest beside an append", 24)
}

// awaitWaiting waits until so many appends wait for a commit.
func awaitWaiting(t *testing.T, j *Log, n int) {
	t.Helper()
	for waiting := 0; waiting < n; runtime.Gosched() {
		if t.Context().Err() != nil {
			t.Fatal("nobody waits")
		}
		j.mu.Lock()
		waiting = len(j.waiting)
		j.mu.Unlock()
	}
}

func TestCloseBesideAppends(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	var group sync.WaitGroup
	var mu sync.Mutex
	acknowledged := 0
	started := make(chan struct{}, 1000)
	for worker := range 8 {
		group.Go(func() {
			for n := int64(0); ; n++ {
				_, err := j.Append(journal.Draft{Job: n*8 + int64(worker) + 1, Payload: journal.Accepted{Target: "t"}})
				if errors.Is(err, journal.ErrClosed) {
					return
				}
				if err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				mu.Lock()
				acknowledged++
				mu.Unlock()
				select {
				case started <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 100 {
		<-started
	}
	mustClose(t, j)
	mustClose(t, j)
	group.Wait()
	if _, err := os.Stat(filepath.Join(dir, segmentFile+"-wal")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Close left a write-ahead log: %v", err)
	}
	if state := snapshot(openTest(t, dir)); state.Seq != uint64(acknowledged) {
		t.Fatalf("%d events, %d were acknowledged", state.Seq, acknowledged)
	}
}

// positionOnDisk is what the newest segment knows of the jobs table.
func positionOnDisk(t *testing.T, dir string) (uint64, error) {
	t.Helper()
	f := archive.Open(dir)
	n, _, err := f.Notes(t.Context())
	return n.Position, errors.Join(err, f.Close())
}

package eventlog

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Whoever appends while others commit shares their next commit. That their events then are as if they had come
// one after the other shows TestSharedCommitIsLikeOneAfterTheOther.
func TestAppendersShareCommits(t *testing.T) {
	t.Parallel()
	const appenders, each = 64, 20
	dir := t.TempDir()
	j := openTest(t, dir)
	d := makeFaulty(j)
	d.before = func(first []archive.Record) error {
		if d.commits == 0 {
			awaitWaiting(t, j, appenders-len(first)/4)
		}
		return nil
	}
	var group sync.WaitGroup
	for a := range appenders {
		group.Go(func() {
			for n := range each {
				_, err := j.Append(wholeLife(int64(a*each + n + 1))...)
				check.Do(t, err)
			}
		})
	}
	group.Wait()
	if d.commits >= appenders*each/2 {
		t.Errorf("%d commits for %d appends", d.commits, appenders*each)
	}
	mustClose(t, j)
	state, err := verifyAll(t.Context(), openReader(t, dir))
	if err != nil || state.Seq != appenders*each*4 {
		t.Fatalf("the journal ends at %d: %v", state.Seq, err)
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
	if state := snapshot(j); state.Seq != maxGroup || len(j.waiting) != 2 || !j.leading {
		t.Fatalf("%d events, %d appends wait", state.Seq, len(j.waiting))
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
			must.Do(t, c.write(j))
			crashed := copyFolder(t, dir)
			must.Equal(t, must.Get(positionOnDisk(t, crashed))(t), c.want, "position")
			mustClose(t, j) // writes it in any case
			again := openTest(t, dir)
			must.Equal(t, again.Position(), 3, "position … after Close")
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
		check.Do(t, j.Rest())
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
	var acknowledged atomic.Uint64
	for worker := range 8 {
		group.Go(func() {
			for n := int64(0); ; n++ {
				_, err := j.Append(journal.Draft{Job: n*8 + int64(worker) + 1, Payload: journal.Accepted{Target: "t"}})
				if errors.Is(err, journal.ErrClosed) {
					return
				}
				check.Do(t, err)
				acknowledged.Add(1)
			}
		})
	}
	for acknowledged.Load() < 100 {
		runtime.Gosched()
	}
	mustClose(t, j)
	mustClose(t, j)
	group.Wait()
	if _, err := os.Stat(filepath.Join(dir, segmentFile+"-wal")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Close left a write-ahead log: %v", err)
	}
	state := snapshot(openTest(t, dir))
	must.Equal(t, state.Seq, acknowledged.Load(), "events, … were acknowledged")
}

// positionOnDisk is what the newest segment knows of the jobs table.
func positionOnDisk(t *testing.T, dir string) (uint64, error) {
	t.Helper()
	f := &archive.Folder{Dir: dir}
	position, _, err := f.Position(t.Context())
	return position, err
}

// drafts draws one append, legal or not.
func drafts() *rapid.Generator[[]journal.Draft] {
	one := rapid.Custom(func(t *rapid.T) journal.Draft {
		text := rapid.SampledFrom([]string{"a", "b", "\xff\xfe bad", "�", "日本", `\ufffd`, "<&>\x00"}).Draw(t, "text")
		code := rapid.IntRange(0, 255).Draw(t, "code")
		payload := rapid.SampledFrom([]journal.Payload{
			journal.Accepted{Target: text, Token: text, Manual: code%2 == 0},
			journal.Ignored{Reason: text},
			journal.Released{Reason: text},
			journal.Running{Attempt: 1 + code%3},
			journal.Started{Pid: code, StartTime: 1<<64 - 1, BootID: text},
			journal.Signal{Signo: code, By: text},
			journal.Done{Result: text, Code: &code, Signal: text, Stdout: journal.Output{Kept: []byte(text), Size: 9}},
			journal.Conflict{Found: &journal.Row{Target: text}, Wanted: text},
			journal.Opened{Name: text, Targets: map[string]int{text: code}},
			journal.Closed{Reason: text},
			journal.Paused{Targets: []string{text}},
			journal.TargetAdded{Target: text, Concurrency: code},
			journal.TargetRemoved{Target: text},
			journal.ConcurrencySet{Target: text, Concurrency: code},
		}).Draw(t, "payload")
		return journal.Draft{Job: rapid.Int64Range(0, 3).Draw(t, "job"), Payload: payload}
	})
	return rapid.SliceOfN(one, 0, 3)
}

// An append is there as a whole or leaves no trace, the state in memory is the fold over the disk,
// and forgetting what has ended changes no answer.
func TestStateIsTheFoldOverTheDisk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		j := openTest(t, t.TempDir())
		model := &journal.State{KeepEnded: true}
		for _, batch := range rapid.SliceOfN(drafts(), 1, 25).Draw(rt, "appends") {
			before := snapshot(j)
			appended, err := j.Append(batch...)
			after := snapshot(j)
			if err != nil {
				if diff := cmp.Diff(before, after); diff != "" || len(appended) > 0 {
					rt.Fatalf("a refused append left a trace: %s", diff)
				}
				continue
			}
			must.Equal(rt, len(appended), len(batch), "events of … drafts")
			for i, e := range appended {
				if e.Seq != before.Seq+uint64(i)+1 || e.Job != batch[i].Job || e.Kind() != batch[i].Payload.Kind() {
					rt.Fatalf("event %+v of draft %+v", e, batch[i])
				}
				must.Do(rt, model.Apply(e), "the model")
			}
		}
		folded, err := verifyAll(t.Context(), j.reader)
		if err != nil {
			rt.Fatalf("fold: %v", err)
		}
		memory := snapshot(j)
		must.Equal(rt, cmp.Diff(memory.Unfinished(), folded.Unfinished()), "", "jobs: -memory +disk")
		must.Equal(rt, cmp.Diff(memory.Unfinished(), model.Unfinished()), "", "jobs: -memory +all kept")
		inMemory, err := journal.EncodeCheckpoint(&memory)
		onDisk, err2 := journal.EncodeCheckpoint(folded)
		if diff := cmp.Diff(string(inMemory), string(onDisk)); diff != "" || errors.Join(err, err2) != nil ||
			memory.Seq != folded.Seq || memory.Hash != folded.Hash {
			rt.Fatalf("event %d in memory, %d on the disk: %v, -memory +disk: %s", memory.Seq, folded.Seq, errors.Join(err, err2), diff)
		}
		mustClose(t, j)
	})
}

// A job's event without a job is refused, also behind an append of nothing, and leaves the others
// alone.
func TestAJobsEventNeedsAJob(t *testing.T) {
	t.Parallel()
	group := []*appending{newAppending(nil), newAppending([]journal.Draft{{Job: 0, Payload: journal.Accepted{Target: "a", Manual: true, Token: "a"}}}), newAppending(wholeLife(1))}
	staged := stage(&journal.State{}, journal.Hash{}, group, instant{wall: base})
	illegal := new(journal.IllegalError)
	if group[0].err != nil || !errors.As(group[1].err, &illegal) || group[2].err != nil || len(staged.events) != 4 {
		t.Errorf("%v, %v, %v; %d events", group[0].err, group[1].err, group[2].err, len(staged.events))
	}
}

// Appends that share a commit fare as they would one after the other: one that is
// refused half-way leaves no trace for the next.
func TestSharedCommitIsLikeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var together, alone []*appending
		for _, batch := range rapid.SliceOfN(drafts(), 2, 25).Draw(t, "appends") {
			together = append(together, newAppending(batch))
			alone = append(alone, newAppending(batch))
		}
		stage(&journal.State{}, journal.Hash{}, together, instant{wall: base})
		state := &journal.State{}
		for i, a := range alone {
			for _, e := range stage(state, state.Hash, alone[i:i+1], instant{wall: base}).events {
				must.Do(t, state.Apply(e))
			}
			if diff := cmp.Diff(a.events, together[i].events, cmpopts.EquateEmpty()); diff != "" || (a.err == nil) != (together[i].err == nil) {
				t.Fatalf("append %d: alone %v, together %v: %s", i, a.err, together[i].err, diff)
			}
		}
	})
}

// A pointer has its type's kind, but would not be folded.
func TestPointersAreNoPayloads(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	for name, d := range map[string]journal.Draft{
		"of a job":      {Job: 1, Payload: &journal.Accepted{Target: "t"}},
		"of the worker": {Job: 0, Payload: &journal.Opened{Name: "w"}},
		"nil":           {Job: 1, Payload: nil},
	} {
		if _, err := j.Append(d); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	state := snapshot(j)
	must.Equal(t, state.Seq, 0, "the journal holds … events")
}

// All output of a job comes back, and what compresses is stored small, in the open segment and in a
// sealed one.
func TestOutputIsStoredCompressed(t *testing.T) {
	t.Parallel()
	outputs := map[string]struct {
		kept []byte
		most int // bytes stored
	}{
		"text":                 {[]byte(strings.Repeat("converted one more file\n", 10_000)), 5000},
		"noise":                {noise(100_000), 100_000},
		"little":               {[]byte("ok\n"), 3},
		"compressed":           {zstdFrame(noise(5000)), 5100},
		"compressed, little":   {zstdFrame([]byte("x")), 100},
		"begins like that":     {slices.Concat(zstdMagic, []byte("but is none")), 100},
		"just the beginning":   {zstdMagic, 100},
		"almost the beginning": {zstdMagic[:3], 3},
	}
	j := openTest(t, t.TempDir())
	r := openReader(t, j.config.Dir)
	job := int64(0)
	for name, c := range outputs {
		job++
		life := wholeLife(job)
		life[3].Payload = journal.Done{Result: "ok", Stdout: journal.Output{Kept: c.kept, Size: int64(len(c.kept))}, Stderr: journal.Output{Kept: c.kept, Size: 7}}
		want := mustAppend(t, j, life...)
		var stored int
		query(t, j, `SELECT max(length(stdout), length(stderr)) FROM events WHERE seq = ?`, want[3].Seq, &stored)
		if stored > c.most {
			t.Errorf("%s: %d bytes are stored, want at most %d", name, stored, c.most)
		}
		check.Equal(t, cmp.Diff(want, events(t, r, journal.Filter{Job: job, Output: true})), "", "%s", name)
	}
	want := events(t, r, journal.Filter{Output: true})
	roll(t, j)
	mustAppend(t, j, journal.Draft{Job: 0, Payload: journal.Closed{}})
	mustMaintain(t, j)
	check.Diff(t, want, events(t, r, journal.Filter{Output: true, Until: want[len(want)-1].Time.Add(1)}), "sealed")
	must.Get(verifyAll(t.Context(), r))(t)
}

func query(t *testing.T, j *Log, text string, seq uint64, value any) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+archive.DatabasePath(j.config.Dir, 1)+"?mode=ro")
	if err == nil {
		err = errors.Join(db.QueryRow(text, int64(seq)).Scan(value), db.Close())
	}
	must.Do(t, err)
}

// zstdMagic is what a frame of zstd begins with.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// zstdFrame is content as a frame of zstd with one block, which is stored as it is.
func zstdFrame(content []byte) []byte {
	const oneSegmentOfKnownSize, lastBlock = 0xa0, 1
	frame := binary.LittleEndian.AppendUint32(append(slices.Clone(zstdMagic), oneSegmentOfKnownSize), uint32(len(content)))
	block := binary.LittleEndian.AppendUint32(nil, uint32(len(content)<<3|lastBlock))
	return append(append(frame, block[:3]...), content...)
}

// Each commit is told of once, with its events, before anybody knows that it is done.
func TestCommitsAreObserved(t *testing.T) {
	t.Parallel()
	var kinds []journal.Kind
	var bytes int64
	var took time.Duration
	log := must.Get(Open(context.Background(), Config{Dir: t.TempDir(), Committed: func(events []journal.Event, more int64, time time.Duration) {
		for _, e := range events {
			kinds = append(kinds, e.Kind())
		}
		bytes += more
		took += time
	}}))(t)
	defer log.Close()
	must.Get(log.Append(journal.Draft{Payload: journal.Marked{Mark: "aaaa"}}))(t)
	first := bytes
	if len(kinds) != 1 || kinds[0] != journal.KindMarked || bytes <= 0 || took <= 0 {
		t.Errorf("told of %v, %d bytes, %v", kinds, bytes, took)
	}
	if _, err := log.Append(journal.Draft{Job: 1, Payload: journal.Released{}}); err == nil {
		t.Fatal("a release without a claim was taken")
	}
	if len(kinds) != 1 || bytes != first {
		t.Errorf("told of an append that was refused: %v, %d bytes", kinds, bytes)
	}
}

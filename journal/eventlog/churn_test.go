package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"jobd/journal"
)

// churning is a configuration under which segments come and go all the time.
func churning(dir string) Config {
	return Config{
		Dir: filepath.Join(dir, "live"), ArchiveDir: filepath.Join(dir, "archive"),
		SegmentSize: 20 << 10, Retention: time.Millisecond,
	}
}

func makeChurning(t *testing.T) Config {
	t.Helper()
	c := churning(t.TempDir())
	if err := errors.Join(os.Mkdir(c.Dir, 0o700), os.Mkdir(c.ArchiveDir, 0o700)); err != nil {
		t.Fatal(err)
	}
	return c
}

// childChurns appends for ever, with a mirror that is always up to date, and prints what was
// acknowledged.
func childChurns() {
	j, err := Open(context.Background(), churning(os.Args[1]))
	if err != nil {
		panic(err)
	}
	go func() { panic(j.Run(context.Background())) }()
	var first uint64
	j.View(func(s *journal.State) { first = s.Seq })
	for n := int64(1); ; n++ {
		events, err := j.Append(wholeLife(int64(first)*1_000_000 + n)...)
		if err != nil {
			panic(err)
		}
		last := events[len(events)-1]
		j.SetPosition(last.Seq)
		fmt.Printf("%d %s\n", last.Seq, last.Hash)
	}
}

// Killed at any point of rolling over, sealing, archiving and removing, a worker loses nothing:
// archive and journal together hold every acknowledged event, once.
func TestKilledWhileSegmentsComeAndGo(t *testing.T) {
	t.Parallel()
	c := makeChurning(t)
	acknowledged := make(map[uint64]string)
	for range 5 {
		child := startChild(t, "churn", filepath.Dir(c.Dir))
		lines := []string{}
		for range 1 + rand.IntN(1500) {
			lines = append(lines, child.line(t))
		}
		for _, line := range append(lines, child.kill()...) {
			var seq uint64
			var hash string
			if n, _ := fmt.Sscanf(line, "%d %s", &seq, &hash); n == 2 && len(hash) == 2*len(journal.Hash{}) {
				acknowledged[seq] = hash
			}
		}
		if err := verdictOn(t.Context(), c.Dir); err != nil {
			t.Fatal(err)
		}
	}
	j := openWith(t, c)
	mustMaintain(t, j)
	mustClose(t, j)
	var all []journal.Event
	for _, dir := range []string{c.ArchiveDir, c.Dir} {
		if err := verdictOn(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		all = append(all, events(t, openReader(t, dir), journal.Filter{})...)
	}
	for i, e := range all {
		if e.Seq != uint64(i)+1 {
			t.Fatalf("event %d in place %d", e.Seq, i+1)
		}
		if hash, ok := acknowledged[e.Seq]; ok && hash == e.Hash.String() {
			delete(acknowledged, e.Seq)
		}
	}
	if archived := len(names(t, c.ArchiveDir)); len(acknowledged) > 0 || archived < 2 {
		t.Fatalf("%d acknowledged events are missing; %d segments were archived", len(acknowledged), archived)
	}
}

// Under load retention never removes what is not mirrored, and one who follows through a Reader,
// and a mirror that follows through Next, meet every event once, whatever becomes of the segments
// meanwhile.
func TestFollowersSurviveRetention(t *testing.T) {
	t.Parallel()
	const total = 4_000
	c := makeChurning(t)
	c.ArchiveDir = ""
	j := openWith(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- j.Run(ctx) }()
	appended := make(chan struct{})
	go func() {
		defer close(appended)
		for n := int64(1); n <= total/4; n++ {
			if _, err := j.Append(wholeLife(n)...); err != nil {
				t.Errorf("Append: %v", err)
				return
			}
		}
	}()
	var read, mirrored atomic.Uint64
	done := make(chan struct{})
	go func() { // as jobctl follows
		defer close(done)
		r := openReader(t, c.Dir)
		for read.Load() < total && !t.Failed() {
			for e, err := range r.Events(ctx, journal.Filter{After: read.Load()}) {
				if err != nil || e.Seq != read.Load()+1 {
					t.Errorf("event %d after %d: %v", e.Seq, read.Load(), err)
					return
				}
				read.Store(e.Seq)
				j.SetPosition(min(e.Seq, mirrored.Load()))
			}
		}
	}()
	for mirrored.Load() < total && !t.Failed() {
		batch, err := j.Next(ctx, mirrored.Load(), 100)
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		for _, e := range batch {
			if e.Seq != mirrored.Load()+1 {
				t.Fatalf("Next gave %d after %d", e.Seq, mirrored.Load())
			}
			mirrored.Store(e.Seq)
		}
		first, err := j.reader.First(ctx)
		if position := j.Position(); err != nil || first > position+1 {
			t.Fatalf("the history begins with %d, the mirror is at %d: %v", first, position, err)
		}
	}
	<-done
	<-appended // what retention says is among those that were read
	eventually(t, "all but the newest segment are gone", func() bool {
		j.SetPosition(snapshotSeq(j))
		_, segments := j.Usage()
		return segments == 1
	})
	cancel()
	if err := <-ran; err != nil {
		t.Errorf("Run: %v", err)
	}
	mustClose(t, j)
	if err := verdictOn(t.Context(), c.Dir); err != nil {
		t.Error(err)
	}
}

func TestRunEndsWithTheJournal(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	ran := make(chan error, 1)
	go func() { ran <- j.Run(t.Context()) }()
	mustClose(t, j)
	if err := <-ran; err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := j.Maintain(t.Context()); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Maintain: %v", err)
	}
}

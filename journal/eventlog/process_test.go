package eventlog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// childVariable names what a process started by these tests does.
const childVariable = "JOURNAL_TEST_CHILD"

func children() map[string]func() {
	return map[string]func(){
		"append": func() { childAppends(Config{Dir: os.Args[1]}) },
		"churn":  func() { childAppends(churning(os.Args[1])) },
		"hold":   childHolds,
		"choke":  childChokes,
		"fill":   childFills,
		"start":  childStarts,
	}
}

// child is another process with the journal in a folder.
type child struct {
	*exec.Cmd
	out *bufio.Scanner
}

func newChild(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	program := must.Get(os.Executable())(t)
	c := exec.Command(program, dir)
	c.Env = append(os.Environ(), childVariable+"="+what)
	c.Stderr = t.Output()
	return c
}

func startChild(t *testing.T, what, dir string) *child {
	t.Helper()
	c := &child{Cmd: newChild(t, what, dir)}
	out := must.Get(c.StdoutPipe())(t)
	c.out = bufio.NewScanner(out)
	in := must.Get(c.StdinPipe())(t)
	must.Do(t, c.Start())
	t.Cleanup(func() {
		c.kill()
		_ = in.Close()
	})
	return c
}

// kill ends the process as a crash would, and gives what it said until then.
func (c *child) kill() (lines []string) {
	_ = c.Process.Kill()
	for c.out.Scan() {
		lines = append(lines, c.out.Text())
	}
	_ = c.Wait()
	return lines
}

func (c *child) line(t *testing.T) string {
	t.Helper()
	if !c.out.Scan() {
		t.Fatalf("the child said no more: %v", c.out.Err())
	}
	return c.out.Text()
}

func childJournal(c Config) *Log {
	j, err := Open(context.Background(), c)
	if err != nil {
		panic(err)
	}
	return j
}

// childAppends appends from several goroutines for ever, with a mirror that is always up to date, and prints
// what was acknowledged.
func childAppends(c Config) {
	j := childJournal(c)
	go func() { panic(j.Run(context.Background())) }()
	var first uint64
	j.View(func(s *journal.State) { first = s.Seq })
	for worker := range 4 {
		go func() {
			for n := int64(0); ; n++ {
				events, err := j.Append(wholeLife(int64(first)*1_000_000 + n*4 + int64(worker) + 1)...)
				if err != nil {
					panic(err)
				}
				last := events[len(events)-1]
				j.SetPosition(last.Seq)
				fmt.Printf("%d %s\n", last.Seq, last.Hash)
			}
		}()
	}
	select {}
}

// childHolds has the journal open until it is killed.
func childHolds() {
	childJournal(Config{Dir: os.Args[1]})
	fmt.Println("holding")
	_, _ = io.Copy(io.Discard, os.Stdin) // which ends with our parent
}

// childChokes appends until no file of its may grow any more, and prints what it knows of then.
func childChokes() {
	signal.Ignore(syscall.SIGXFSZ) // so that the write fails with EFBIG
	j := childJournal(Config{Dir: os.Args[1]})
	limit := syscall.Rlimit{Cur: 300_000, Max: 300_000}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
	var last uint64
	for job := int64(1); ; job++ {
		events, err := j.Append(wholeLife(job)...)
		if err != nil {
			_, again := j.Append(wholeLife(job)...)
			fmt.Printf("%d %.17v, %.39v\n", last, err, again)
			return
		}
		last = events[len(events)-1].Seq
	}
}

// Pitfall 26.
func TestSecondProcessIsRefusedWithinASecond(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startChild(t, "hold", dir)
	c.line(t)
	var err error
	for try := 1; ; try++ {
		begun := time.Now()
		if _, err = Open(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), " is in use by ") {
			t.Fatalf("Open: %v, not that it is in use", err)
		}
		took := time.Since(begun)
		if took <= time.Second {
			break
		}
		if try == 10 { // on a busy machine one of them may take long
			t.Fatalf("each of %d tries was refused after more than a second, the last after %v", try, took)
		}
	}
	name := fmt.Sprintf("process %d ", c.Process.Pid)
	check.Contains(t, err.Error(), " is in use by "+name, "error %q does not name %q", err, name)
	c.kill()
	mustClose(t, openTest(t, dir))
}

// Pitfall 24: a write that fails in the middle ends the journal, not what is in it.
func TestWriteErrorEndsTheJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seq, said, _ := strings.Cut(startChild(t, "choke", dir).line(t), " ")
	must.Equal(t, said, "append to journal, journal failed and takes no more events")
	last := must.Get(strconv.ParseUint(seq, 10, 64))(t)
	j := openTest(t, dir)
	if state := snapshot(j); last == 0 || state.Seq < last {
		t.Fatalf("the journal ends at %d, acknowledged was %d", state.Seq, last)
	}
	mustAppend(t, j, wholeLife(1_000_000)...)
}

func TestReaderBesideAnotherProcessThatWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startChild(t, "append", dir)
	c.line(t)
	r := openReader(t, dir)
	var before uint64
	for range 5 {
		line, _, _ := strings.Cut(c.line(t), " ")
		state := must.Get(verifyAll(t.Context(), r))(t)
		if seq, err := strconv.ParseUint(line, 10, 64); err != nil || state.Seq < max(seq, before) {
			t.Fatalf("Verify ends at %d, acknowledged was %s (%v)", state.Seq, line, err)
		}
		before = state.Seq
	}
}

func TestNobodyHoldsALockThatWasNeverSigned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := lock(dir)
	must.Do(t, err)
	defer f.Close()
	must.Do(t, f.Truncate(0))
	_, err = lock(dir)
	if err == nil || !strings.Contains(err.Error(), " is in use by another process;") {
		t.Fatalf("lock: %v", err)
	}
}

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
	must.Do(t, errors.Join(os.Mkdir(c.Dir, 0o700), os.Mkdir(c.ArchiveDir, 0o700)))
	return c
}

// Killed at any point of appending, rolling over, sealing, archiving and removing, a worker loses nothing: archive
// and journal together hold every acknowledged event, once.
func TestKilledProcessLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	c := makeChurning(t)
	acknowledged := make(map[uint64]string)
	// held gives what archive and journal hold together, which is each acknowledged event.
	held := func() (all []journal.Event) {
		t.Helper()
		found := make(map[uint64]bool)
		for _, dir := range []string{c.ArchiveDir, c.Dir} {
			if len(names(t, dir)) == 0 {
				continue
			}
			must.Do(t, verdictOn(t.Context(), dir))
			all = append(all, events(t, openReader(t, dir), journal.Filter{})...)
		}
		for _, e := range all {
			if acknowledged[e.Seq] == e.Hash.String() {
				found[e.Seq] = true
			}
		}
		must.Equal(t, len(found), len(acknowledged), "of … acknowledged events are there")
		return all
	}
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
		held() // before anybody has opened the journal again
	}
	j := openWith(t, c)
	mustMaintain(t, j)
	mustClose(t, j)
	for i, e := range held() {
		must.Equal(t, e.Seq, uint64(i)+1, "event … in place %d", i+1)
	}
	if archived := len(names(t, c.ArchiveDir)); archived < 2 {
		t.Fatalf("%d segments were archived", archived)
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
	check.Do(t, <-ran, "Run")
	mustClose(t, j)
	check.Do(t, verdictOn(t.Context(), c.Dir))
}

func TestRunEndsWithTheJournal(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	ran := make(chan error, 1)
	go func() { ran <- j.Run(t.Context()) }()
	mustClose(t, j)
	check.Do(t, <-ran, "Run")
	check.ErrorIs(t, j.Maintain(t.Context()), journal.ErrClosed, "Maintain")
}

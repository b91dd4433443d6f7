package eventlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/replay"
)

// Pitfall 24: after a failure nothing is accepted, nothing was published, followers are
// told, and the next start finds a sound journal.
func TestFailureEndsTheJournal(t *testing.T) {
	t.Parallel()
	broken := errors.New("input/output error")
	for name, inject := range map[string]func(*Log){
		"before anything is written": func(j *Log) { makeFaulty(j).before = func([]archive.Record) error { return broken } },
		"after the commit":           func(j *Log) { makeFaulty(j).after = func() error { return broken } },
		"head file":                  func(j *Log) { _ = j.head.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			j := openTest(t, dir)
			mustAppend(t, j, wholeLife(1)...)
			inject(j)
			follower := make(chan error)
			go func() {
				_, err := j.Next(t.Context(), 4, 10)
				follower <- err
			}()
			eventually(t, "the follower waits", func() bool { return followed(j) })
			_, first := j.Append(wholeLife(2)...)
			_, second := j.Append(wholeLife(3)...)
			if first == nil || second == nil || errors.Is(first, journal.ErrFull) {
				t.Fatalf("errors %v, %v", first, second)
			}
			if err := <-follower; err == nil || err.Error() != second.Error() {
				t.Fatalf("the follower got %v, want %v", err, second)
			}
			if state := snapshot(j); state.Seq != 4 {
				t.Fatalf("the state is at %d", state.Seq)
			}
			_ = j.Close()
			again := openTest(t, dir)
			if state := snapshot(again); state.Seq != 4 && state.Seq != 8 {
				t.Fatalf("the journal ends at %d", state.Seq)
			}
			mustAppend(t, again, wholeLife(4)...)
		})
	}
}

func followed(j *Log) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.grown != nil
}

// An append may be illegal only because of one in the same commit, which then fails.
func TestAppendIsNotIllegalBecauseOfOneThatFailed(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	limitPages(t, j, 1)
	drafts := []journal.Draft{{Job: 1, Payload: journal.Accepted{Target: string(make([]byte, 100_000))}}}
	group := []*appending{newAppending(drafts), newAppending(drafts)}
	j.waiting, j.leading = group, true
	j.commit()
	for i, a := range group {
		if !errors.Is(a.err, journal.ErrFull) || a.events != nil {
			t.Errorf("append %d: %v", i, a.err)
		}
	}
}

// limitPages lets the database grow no further than to so many pages; 0: no limit.
func limitPages(t *testing.T, j *Log, pages int) {
	t.Helper()
	if pages == 0 {
		pages = 1 << 30
	}
	if _, err := writer(j).ExecContext(t.Context(), fmt.Sprintf(`PRAGMA max_page_count(%d)`, pages)); err != nil {
		t.Fatal(err)
	}
}

// Pitfall 23.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	mustAppend(t, j, wholeLife(1)...)
	before := snapshot(j)
	limitPages(t, j, 1)
	large := journal.Draft{Job: 2, Payload: journal.Ignored{Reason: string(make([]byte, 100_000))}}
	for range 2 {
		if _, err := j.Append(wholeLife(3)[0], large); !errors.Is(err, journal.ErrFull) {
			t.Fatalf("Append: %v, want ErrFull", err)
		}
	}
	if after := snapshot(j); after.Seq != before.Seq || after.Hash != before.Hash {
		t.Fatalf("the state moved from %d to %d", before.Seq, after.Seq)
	}
	limitPages(t, j, 0)
	mustAppend(t, j, wholeLife(3)[0], large)
	mustClose(t, j)
	if _, err := verifyAll(t.Context(), openReader(t, dir)); err != nil {
		t.Fatal(err)
	}
}

// Pitfall 23 and 24: a checkpoint that finds no room may be tried again, one that
// failed otherwise may not.
func TestFailedCheckpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	limitPages(t, j, 1)
	_, noRoom := writer(j).ExecContext(t.Context(), `CREATE TABLE t AS SELECT zeroblob(100000)`)
	limitPages(t, j, 0)
	d := makeFaulty(j)
	if d.folding = noRoom; !errors.Is(j.Rest(), journal.ErrFull) {
		t.Fatalf("Rest: want ErrFull for %v", noRoom)
	}
	mustAppend(t, j, wholeLife(1)...)
	if d.folding = errors.New("input/output error"); !errors.Is(j.Rest(), d.folding) {
		t.Fatal("Rest: no error")
	}
	if _, err := j.Append(wholeLife(2)...); !errors.Is(err, d.folding) {
		t.Fatalf("Append: %v", err)
	}
	mustClose(t, j)
	mustAppend(t, openTest(t, dir), wholeLife(2)...)
}

// childFills fills a file system of its own with a journal, makes room, and goes on.
func childFills() {
	dir := os.Args[1]
	ballast := filepath.Join(dir, "ballast")
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	must(syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
	must(os.WriteFile(ballast, make([]byte, 300_000), 0o600))
	j := childJournal()
	var err error
	job := int64(1)
	for ; err == nil; job++ {
		_, err = j.Append(journal.Draft{Job: job, Payload: journal.Ignored{Reason: strings.Repeat("x", 5000)}})
	}
	var before uint64
	j.View(func(s *journal.State) { before = s.Seq })
	fmt.Println("full:", errors.Is(err, journal.ErrFull), before > 10, before == uint64(job-2))
	_, err = j.Append(wholeLife(1_000)...)
	fmt.Println("still full:", errors.Is(err, journal.ErrFull))
	must(os.Remove(ballast))
	_, err = j.Append(wholeLife(1_000)...)
	fmt.Println("room again:", err)
	must(j.Close())
	must(syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	r, err := replay.Open(dir)
	must(err)
	state, err := verifyAll(context.Background(), r)
	fmt.Println("verified, read-only:", state.Seq == before+4, err)
	_, err = Open(context.Background(), Config{Dir: dir})
	fmt.Println("refused, read-only:", errors.Is(err, syscall.EROFS))
}

// Pitfall 23, on a file system that is really full.
func TestFullFileSystem(t *testing.T) {
	t.Parallel()
	said := onOwnDisk(t, "fill") // where users may not mount, TestFullDisk stands in
	want := `full: true true true
still full: true
room again: <nil>
verified, read-only: true <nil>
refused, read-only: true
`
	if said != want {
		t.Fatalf("the child said:\n%s", said)
	}
}

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
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/journaltest/readtest"
	"jobd/journal/replay"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
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
			_, follower := following(t, j, 4)
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
	must.Get(writer(j).ExecContext(t.Context(), fmt.Sprintf(`PRAGMA max_page_count(%d)`, pages)))(t)
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
	must.Get(verifyAll(t.Context(), openReader(t, dir)))(t)
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
	j := childJournal(Config{Dir: dir})
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

// A disk without room for a new segment: the journal goes on in the old one, and tries again a
// minute later.
func TestRollOverWithoutRoom(t *testing.T) {
	t.Parallel()
	now := base
	j := openWith(t, Config{Dir: t.TempDir(), Now: func() time.Time { return now }, SegmentAge: time.Hour})
	d := makeFaulty(j)
	d.beginning = syscall.ENOSPC
	mustAppend(t, j, wholeLife(1)...)
	now = now.Add(time.Hour)
	mustAppend(t, j, wholeLife(2)...)
	mustAppend(t, j, wholeLife(3)...)
	if _, segments := j.Usage(); segments != 1 || d.begun != 1 {
		t.Fatalf("%d segments, %d tries", segments, d.begun)
	}
	now = now.Add(rollRetry)
	d.beginning = nil
	mustAppend(t, j, wholeLife(4)...)
	if _, segments := j.Usage(); segments != 2 || d.begun != 2 {
		t.Fatalf("%d segments, %d tries", segments, d.begun)
	}
	mustClose(t, j)
	if state, err := verifyAll(t.Context(), openReader(t, j.config.Dir)); err != nil || state.Seq != 16 {
		t.Fatal(state, err)
	}
}

// Pitfall 24: any other failure ends the journal, before or after the new segment was made; the
// next start goes on from either.
func TestFailedRollOverEndsTheJournal(t *testing.T) {
	t.Parallel()
	broken := errors.New("input/output error")
	for name, inject := range map[string]func(*faultyDisk){
		"before": func(d *faultyDisk) { d.beginning = broken },
		"after":  func(d *faultyDisk) { d.begunWith = broken },
	} {
		j := rolled(t, 2, 3)
		inject(makeFaulty(j))
		roll(t, j)
		if _, err := j.Append(wholeLife(9)...); !errors.Is(err, broken) || errors.Is(err, journal.ErrFull) {
			t.Fatalf("%s: Append: %v", name, err)
		}
		if _, err := j.Append(wholeLife(9)...); !errors.Is(err, broken) {
			t.Fatalf("%s: again: %v", name, err)
		}
		_ = j.Close()
		again := openTest(t, j.config.Dir)
		mustAppend(t, again, wholeLife(9)...)
		mustMaintain(t, again)
		if state, err := verifyAll(t.Context(), again.reader); err != nil || state.Seq != 34 {
			t.Fatalf("%s: %v, %v", name, state.Seq, err)
		}
	}
}

// The history is the same after each step at which a roll-over, a sealing or a removal died, and the
// next run takes it up.
func TestEveryStepIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	source := rolled(t, 3, 5)
	mustMaintain(t, source)
	source.SetPosition(75)
	mustClose(t, source)
	unsealed := rolled(t, 3, 5) // the same history, since its clock is
	mustClose(t, unsealed)
	sealed, open := source.config.Dir, unsealed.config.Dir
	want := events(t, openReader(t, sealed), journal.Filter{Output: true})
	copyFrom := func(from, name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			content, err := os.ReadFile(filepath.Join(from, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(name string, content []byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		}
	}
	next := func(t *testing.T, dir string) {
		s := openTest(t, dir)
		h, err := archive.NewHeader(4, &s.state)
		mustClose(t, s)
		if err = errors.Join(err, archive.Make(t.Context(), dir, h, s.position)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		from string
		left func(t *testing.T, dir string)
	}{
		"an empty database": {sealed, write("segment-00000004.db", nil)},
		"an empty database with a log": {sealed, func(t *testing.T, dir string) {
			write("segment-00000004.db", nil)(t, dir)
			write("segment-00000004.db-wal", []byte("x"))(t, dir)
		}},
		"a database with a header":          {sealed, next},
		"nothing sealed":                    {open, func(*testing.T, string) {}},
		"the beginning of a sealed file":    {open, write("segment-00000001.partial", []byte("x"))},
		"a sealed file beside its database": {sealed, copyFrom(open, "segment-00000002.db")},
		"the second one sealed first":       {open, copyFrom(sealed, "segment-00000002.zst")},
		"a log without its database":        {sealed, write("segment-00000001.db-wal", []byte("x"))},
		"sealed, and its database half emptied": {sealed, func(t *testing.T, dir string) {
			copyFrom(open, "segment-00000002.db")(t, dir)
			write("segment-00000002.db-wal", nil)(t, dir)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copyFolder(t, c.from)
			c.left(t, dir)
			same := func(when string) {
				t.Helper()
				r := openReader(t, dir)
				check.Diff(t, want, events(t, r, journal.Filter{Output: true}), "%s", when)
				if _, err := verifyAll(t.Context(), r); err != nil {
					t.Errorf("%s: %v", when, err)
				}
			}
			same("as it was left")
			j := openTest(t, dir)
			same("opened")
			mustMaintain(t, j)
			same("maintained")
			mustClose(t, j)
			for _, name := range names(t, dir) {
				if strings.HasSuffix(name, ".partial") || strings.HasPrefix(name, "segment-00000001.db") || strings.HasPrefix(name, "segment-00000002.db") {
					t.Errorf("%s was left", name)
				}
			}
		})
	}
}

// A removal that died half-way is finished, with the archive as it should be.
func TestRemovalIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	for name, died := range map[string]func(t *testing.T, j *Log, archive string){
		"while it copied": func(t *testing.T, _ *Log, archive string) {
			must.Do(t, os.WriteFile(filepath.Join(archive, "segment-00000001.partial"), []byte("x"), 0o600))
		},
		"before it journalled": func(t *testing.T, j *Log, _ string) {
			must.Do(t, j.archive(t.Context(), archive.Part{Number: 1, Path: archive.SealedPath(j.config.Dir, 1), Sealed: true}))
		},
		"before it removed": func(t *testing.T, j *Log, _ string) {
			p := archive.Part{Number: 1, Path: archive.SealedPath(j.config.Dir, 1), Sealed: true}
			ends, err := j.bounds(p)
			must.Do(t, errors.Join(err, j.archive(t.Context(), p), j.journalRemoval([]retired{{p, ends}})))
		},
	} {
		archive := t.TempDir()
		j := rolled(t, 3, 5)
		mustMaintain(t, j)
		all := events(t, j.reader, journal.Filter{})
		j.config.ArchiveDir = archive
		died(t, j, archive)
		mustClose(t, j)
		j = openWith(t, Config{Dir: j.config.Dir, Retention: 1, ArchiveDir: archive})
		j.SetPosition(30)
		mustMaintain(t, j)
		got := append(events(t, openReader(t, archive), journal.Filter{}), events(t, j.reader, journal.Filter{})...)
		if n := len(all); len(got) != n+1 || got[n].Kind() != journal.KindRetention {
			t.Errorf("%s: %d events, not one that says what went", name, len(got)-n)
		}
		got = got[:len(all)]
		if diff := cmp.Diff(all, got); diff != "" || len(names(t, archive)) != 1 {
			t.Errorf("%s: %v %s", name, names(t, archive), diff)
		}
		if first, err := j.reader.First(t.Context()); err != nil || first != 26 {
			t.Errorf("%s: the history begins with %d, %v", name, first, err)
		}
	}
}

// Two workers with one archive: nothing is overwritten, nothing is removed.
func TestArchiveOfAnotherWorker(t *testing.T) {
	t.Parallel()
	shared := t.TempDir()
	worker := func(job int64) *Log {
		j := openWith(t, Config{Dir: t.TempDir(), Retention: 1, ArchiveDir: shared})
		mustAppend(t, j, wholeLife(job)...)
		roll(t, j)
		mustAppend(t, j, wholeLife(7)...)
		j.SetPosition(8)
		return j
	}
	mustMaintain(t, worker(1))
	path := archive.SealedPath(shared, 1)
	before := must.Get(os.ReadFile(path))(t)
	j := worker(2)
	err := j.Maintain(t.Context())
	if err == nil || !strings.Contains(err.Error(), "every worker needs an archive of its own") {
		t.Errorf("%v", err)
	}
	check.Equal(t, string(must.Get(os.ReadFile(path))(t)), string(before), "the archive")
	check.Equal(t, must.Get(j.reader.First(t.Context()))(t), 1, "the history begins with")
}

// A segment that is damaged before it is sealed is kept as it is, and told.
func TestDamagedSegmentIsNotSealed(t *testing.T) {
	t.Parallel()
	j := rolled(t, 2, 5)
	j.tended.Lock()
	err := j.closeFormer()
	j.tended.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	readtest.Tamper(1, `UPDATE records SET payload = '{}' WHERE seq = 7`)(t, j.config.Dir)
	err = j.Maintain(t.Context())
	var d *journal.DamagedError
	if !errors.As(err, &d) || d.Seq != 7 {
		t.Fatalf("Maintain: %v", err)
	}
	if !cmp.Equal(names(t, j.config.Dir)[2], segmentFile) {
		t.Errorf("%v", names(t, j.config.Dir))
	}
	mustAppend(t, j, wholeLife(77)...)
}

// onOwnDisk has a child do something that mounts a file system in a folder, and gives what it said.
func onOwnDisk(t *testing.T, what string) string {
	t.Helper()
	c := newChild(t, what, t.TempDir())
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.Output()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this machine does not let users mount: %v", err)
	}
	if err != nil {
		t.Fatalf("the child ended with %v, and said:\n%s", err, out)
	}
	return string(out)
}

// childStarts opens a new journal and one that is there on disks with ever more room, from none on.
func childStarts() {
	dir := os.Args[1]
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ballast := filepath.Join(dir, "ballast")
	for _, known := range []bool{false, true} {
		for left, opened := 0, false; !opened; left += os.Getpagesize() {
			must(syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
			if known {
				must(childJournal(Config{Dir: dir}).Close())
			}
			f, err := os.Create(ballast)
			must(err)
			for err == nil {
				_, err = f.Write(make([]byte, os.Getpagesize()))
			}
			info, err := f.Stat()
			must(err)
			must(f.Truncate(info.Size() - int64(left)))
			must(f.Close())
			j, err := Open(context.Background(), Config{Dir: dir})
			text := fmt.Sprint(err)
			told := errors.Is(err, journal.ErrFull) && strings.HasPrefix(text, "journal "+dir+": its disk is full: ") &&
				strings.Contains(text, " KiB are free; make room there: no space left for the journal: ")
			switch {
			case err == nil && left == 0:
				fmt.Println("known:", known, "opened without any room")
			case err != nil && !told:
				fmt.Println("known:", known, "bytes left:", left, "error:", err)
			}
			must(os.Remove(ballast))
			if opened = err == nil; !opened {
				j, err = Open(context.Background(), Config{Dir: dir})
				must(err)
			}
			must(j.Close())
			must(syscall.Unmount(dir, 0))
		}
	}
}

// A start on a full disk says that it is full, and where, whatever it was that found no room; with room
// the journal opens.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	if said := onOwnDisk(t, "start"); said != "" {
		t.Errorf("the child said:\n%s", said)
	}
}

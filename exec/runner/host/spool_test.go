package host

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"jobd/exec/runner/wire"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// shop is a runner's jobs without a worker, with a spool in a folder.
type shop struct {
	*testing.T
	jobs  *jobs
	local *reactor

	mu   sync.Mutex
	over map[*job]chan struct{}
}

func newShop(t *testing.T, folder string) *shop {
	spool := newSpool(folder)
	t.Cleanup(spool.close)
	s := &shop{T: t, jobs: newJobs("this", spool), over: make(map[*job]chan struct{})}
	s.local = newLocalWith(t, func(l *reactor) { l.watcher, l.spool = telling{s.jobs, s}, spool })
	return s
}

// telling is the jobs' watcher, which tells when one has ended.
type telling struct {
	*jobs
	shop *shop
}

func (t telling) ended(j *job) {
	t.jobs.ended(j)
	t.shop.mu.Lock()
	defer t.shop.mu.Unlock()
	close(t.shop.over[j])
}

// start starts a job, and gives a channel that is closed at its end.
func (s *shop) start(id int64, limit int, text string) (j *job, ended <-chan struct{}) {
	s.Helper()
	what := script(text)
	what.maxOutput = limit
	j = s.jobs.add(wire.ID{Job: id, Attempt: 1}, what)
	over := make(chan struct{})
	s.mu.Lock()
	s.over[j] = over
	s.mu.Unlock()
	s.local.start(j)
	return j, over
}

// files gives what is in the spool's folder.
func (s *shop) files() map[string]string {
	s.Helper()
	found := make(map[string]string)
	entries, err := os.ReadDir(s.jobs.spool.folder)
	if err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	for _, entry := range entries {
		if text, err := os.ReadFile(filepath.Join(s.jobs.spool.folder, entry.Name())); err == nil {
			found[entry.Name()] = string(text)
		}
	}
	return found
}

func (s *shop) await(what string, holds func(files map[string]string) bool) {
	s.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		files := s.files()
		if holds(files) {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s: not within 2 minutes: %.300q", what, files)
		}
	}
}

// What a job has written that runs for long is on disk, to the limit, until it is forgotten; what a
// short one has written never is.
func TestWhatAJobHasWrittenIsOnDisk(t *testing.T) {
	t.Parallel()
	s, first, second := newShop(t, filepath.Join(t.TempDir(), "output")), gate(t), gate(t)
	short, shortEnded := s.start(1, 100, "echo short")
	long, ended := s.start(2, 20, "echo before; read line <"+first+"; echo and more than the limit; echo err >&2; read line <"+second+"; echo end >&2")
	<-shortEnded
	names := wire.OutputFiles(wire.ID{Job: 2, Attempt: 1}, long.started)
	s.await("what it wrote before it was old", func(f map[string]string) bool { return f[names[0]] == "before\n" && len(f) == 1 })
	check.Equal(t, short.files[0], "", "a short job is on disk")
	pass(t, first)
	s.await("what it wrote then", func(f map[string]string) bool {
		return f[names[0]] == "before\nand more than" && f[names[1]] == "err\n"
	})
	pass(t, second)
	<-ended
	s.await("what it wrote at last", func(f map[string]string) bool { return f[names[1]] == "err\nend\n" })
	s.jobs.about(&wire.Message{Kind: wire.Forget, ID: wire.ID{Job: 1, Attempt: 1}})
	s.jobs.about(&wire.Message{Kind: wire.Forget, ID: wire.ID{Job: 2, Attempt: 1}})
	s.await("it is forgotten", func(f map[string]string) bool { return len(f) == 0 })
}

// A job that writes a byte at a time costs a write now and then.
func TestTheDiskIsWrittenToNowAndThen(t *testing.T) {
	t.Parallel()
	s := newSpool(filepath.Join(t.TempDir(), "output"))
	defer s.close()
	c := newJob(wire.ID{Job: 1, Attempt: 1}, spec{})
	c.stdout.kept = make([]byte, 0, 10_000)
	s.begin(c)
	for i := range 10_000 {
		c.stdout.mu.Lock()
		c.stdout.kept = append(c.stdout.kept, 'a'+byte(i%26))
		c.stdout.mu.Unlock()
		s.more(c)
	}
	for name := wire.OutputFiles(wire.ID{Job: 1, Attempt: 1}, c.started)[0]; ; {
		if text, err := os.ReadFile(filepath.Join(s.folder, name)); err == nil && len(text) == 10_000 {
			check.Equal(t, string(text), string(c.stdout.kept), "what is on disk differs")
			break
		}
	}
}

// A disk without room, or a folder that can't be written to, holds up no job and ends no runner;
// when there is room again all that is missing is written.
func TestADiskWithoutRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mount := func(size string, flags uintptr) {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, size); err != nil {
			t.Skipf("a small disk can't be made: %v", err)
		}
	}
	mount("size=64k", 0)
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	must.Do(t, os.WriteFile(filepath.Join(dir, "full"), make([]byte, 60<<10), 0o600))
	s, first, second := newShop(t, filepath.Join(dir, "output")), gate(t), gate(t)
	c, ended := s.start(1, 1<<20, "head -c 30000 /dev/zero; read line <"+first+"; echo more; read line <"+second)
	other, otherEnded := s.start(2, 1<<20, "sleep 1.2; echo other; exit 3")
	<-otherEnded
	if done := other.done; *done.Code != 3 || string(done.Stdout.Kept) != "other\n" {
		t.Errorf("another job ended with %+v", done)
	}
	if files := s.files(); len(files) > 0 {
		t.Errorf("the room of the journal was taken: %d files", len(files))
	}
	mount("size=4m", syscall.MS_REMOUNT)
	pass(t, first)
	name := wire.OutputFiles(wire.ID{Job: 1, Attempt: 1}, c.started)[0]
	s.await("with room again", func(f map[string]string) bool { return f[name] == strings.Repeat("\x00", 30_000)+"more\n" })
	pass(t, second)
	<-ended
}

// A job whose output can't be put on disk ends as ever.
func TestAFolderThatCannotBeMade(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	s := newShop(t, filepath.Join(file, "output"))
	c, ended := s.start(1, 100, "sleep 1.1; echo out; exit 4")
	<-ended
	if done := c.done; *done.Code != 4 || string(done.Stdout.Kept) != "out\n" || c.files[0] == "" {
		t.Errorf("done %+v", done)
	}
	s.jobs.about(&wire.Message{Kind: wire.Forget, ID: wire.ID{Job: 1, Attempt: 1}})
}

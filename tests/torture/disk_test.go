package torture

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// diskSize leaves room for the work, and is filled in a moment.
const diskSize = "size=128m"

// smallDisk gives a worker a file system of its own for the journal, which can be filled.
func smallDisk(t *testing.T, s *site) {
	t.Helper()
	dir := s.settings["journal_dir"]
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, diskSize+",mode=0700")
	if errors.Is(err, syscall.EPERM) {
		t.Skip("only root can mount a small disk; the journal's own tests of a full disk stand in")
	}
	if err != nil {
		t.Fatalf("mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount the small disk: %v", err)
		}
	})
}

// fill takes all room on the worker's disk, and gives what frees it.
func (s *site) fill(t *testing.T) (free func()) {
	t.Helper()
	path := filepath.Join(s.settings["journal_dir"], "ballast")
	ballast, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ballast.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = ballast.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// The worker is killed while its disk is full. A start without room says what is wrong, and with room
// takes everything up.
func TestKilledWhileTheDiskIsFull(t *testing.T) {
	t.Parallel()
	s := newSite(t, shortJob, map[string]int{"a": 8}, polling)
	smallDisk(t, s)
	s.insert(t, 200, "a")
	worker, _ := s.start(t)
	awaitProgress(t, s, 20)
	free := s.fill(t)
	<-atRandom(300 * time.Millisecond)
	worker.Kill(t)
	early := s.launch(t, "jobd")
	<-atRandom(300 * time.Millisecond)
	_ = syscall.Kill(early.Pid, syscall.SIGKILL) // it may have ended by itself
	if code := early.ExitCode(t); code != -1 && !strings.Contains(early.Output(), "no space left") {
		t.Errorf("the start on a full disk ended with %d:\n%s", code, early.Output())
	}
	free()
	_, took := s.start(t)
	s.awaitDone(t)
	found := s.audit(t)
	if found.unknown > 8 {
		t.Errorf("%d outcomes are unknown, with 8 slots", found.unknown)
	}
	suite.matrix.add(line{fault: "9 killed while the disk is full", runs: 1, tally: found, up: []time.Duration{took}})
}

package pressure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"jobd/tests/harness"
)

// Jobs write more output than the journal's disk has room for. The worker stops claiming, keeps no more
// outcomes than it has slots, and goes on by itself when the disk is larger.
func TestOutputFillsTheDisk(t *testing.T) {
	t.Parallel()
	const (
		jobs, slots = 1000, 8
		each        = 1 << 20         // bytes, which nothing compresses
		mayHold     = 2 * slots       // those that have a slot, and as many prefetched
		mayShow     = mayHold + slots // and those whose end is being journalled: they have given up their slots
	)
	s := newSite(t)
	s.InsertMany(t, jobs, "a", "waiting")
	dir := filepath.Join(t.TempDir(), "journal")
	mount(t, dir, "size=40m", 0)
	launcher := harness.Script(t, fmt.Sprintf("head -c %d /dev/urandom", each)) + " {id}"
	w := s.start("full", launcher, map[string]int{"a": slots}, harness.Settings{
		"journal_dir": dir, "log_level_console": "error", "prefetch": fmt.Sprint(mayHold - slots),
	})
	idle := w.own()
	s.awaitStill(w)
	s.awaitHeldAtMost(w, mayShow)
	atMost(t, "jobs in the queue", w.status().length(), mayHold)
	if s.Count(t, "status = 'waiting'") == 0 {
		t.Fatal("all jobs were claimed: the disk was never full")
	}
	w.poll(500)
	s.awaitHeldAtMost(w, mayShow)
	// The outcomes that may be held, and as much again that was not collected yet.
	atMost(t, "bytes more in memory than without a job", w.own()-idle, 2*mayShow*each)
	mount(t, dir, "size=2g", syscall.MS_REMOUNT)
	s.awaitDone(s.Count(t, "status = 'done'") + 4*slots)
	if lost := s.Count(t, "status = 'done' AND (result <> 'ok' OR LENGTH(stdout) = 0)"); lost > 0 {
		t.Errorf("%d jobs lost their outcome", lost)
	}
	s.ignoreRest()
	atMost(t, "bytes in memory at most", harness.MemoryOwnPeak(t, w.Pid)+harness.MemoryOwnPeak(t, w.Runner(t)), 56<<20+4*slots*each)
}

// awaitHeldAtMost waits until no more rows are claimed than that: the table shows an end a little later than the journal does.
func (s *site) awaitHeldAtMost(w *worker, most int) {
	s.t.Helper()
	harness.Until(s.t, func() string {
		if held := s.held(); held > most {
			return fmt.Sprintf("rows claimed: %d, and at most %d may be; %d of them run, and the worker says %+v", held, most,
				s.Count(s.t, "status = 'running'"), w.status())
		}
		return ""
	})
}

// awaitStill waits until the journal has taken nothing for some seconds.
func (s *site) awaitStill(w *worker) {
	s.t.Helper()
	before, since := -1, time.Now()
	harness.Until(s.t, func() string {
		if events := w.status().Journal.Events; events != before {
			before, since = events, time.Now()
		}
		if time.Since(since) < 3*time.Second {
			return fmt.Sprintf("the journal still grows: %d events", before)
		}
		return ""
	})
}

// mount makes a small disk for a journal, or changes its size.
func mount(t *testing.T, dir, size string, flags uintptr) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mount("tmpfs", dir, "tmpfs", flags, size+",mode=0700")
	if errors.Is(err, syscall.EPERM) {
		t.Skip("only root can mount a small disk; the journal's own tests of a full disk stand in")
	}
	if err != nil {
		t.Fatalf("mount a disk of %s: %v", size, err)
	}
	if flags == 0 {
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Errorf("unmount the small disk: %v", err)
			}
		})
	}
}

package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/check"
	"jobd/store/storetest/must"
)

// A restart is one no more when the daemon is to end for good.
func TestEnding(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ask                  func(t *testing.T, e *Ending)
		stopping, restarting bool
	}{
		"serving": {func(*testing.T, *Ending) {}, false, false},
		"restart": {func(_ *testing.T, e *Ending) { e.Restart() }, false, true},
		"restart, then stop": {func(t *testing.T, e *Ending) {
			e.Restart()
			if !e.stop() || e.stop() {
				t.Error("the first stop is the first only")
			}
		}, true, false},
		"stop, then restart": {func(_ *testing.T, e *Ending) {
			e.stop()
			e.Restart()
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnding()
			test.ask(t, e)
			if e.Stopping() != test.stopping || e.Restarting() != test.restarting {
				t.Errorf("stopping %v, restarting %v", e.Stopping(), e.Restarting())
			}
		})
	}
}

// /proc and /sys may seem to take folders, and take none.
func TestCouldWriteNothingInTheKernelsFolders(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/proc/x", "/sys/x/y"} {
		if _, err := couldWrite(dir); err == nil {
			t.Errorf("%s could be made", dir)
		}
	}
	must.Get(couldWrite(t.TempDir() + "/below/journal"))(t)
}

// An empty folder, such as systemd makes, is a journal that nobody has begun.
func TestAnEmptyFolderIsNoFault(t *testing.T) {
	t.Parallel()
	found := (&Journal{}).history(t.Context(), "journal", t.TempDir())
	if len(found) != 1 || found[0].Level != check.OK || found[0].Ends {
		t.Errorf("found %+v", found)
	}
}

// The holder of a journal is found also while others take and give up many locks, so that a look at the kernel's
// list may miss it.
func TestTheHolderIsFoundBesideManyLocks(t *testing.T) {
	dir := t.TempDir()
	lock := must.Get(os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600))(t)
	defer lock.Close()
	fmt.Fprintf(lock, "process %d since 1\n", os.Getpid())
	must.Do(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	var over atomic.Bool
	done := make(chan struct{})
	others := t.TempDir()
	go func() {
		defer close(done)
		var files []*os.File
		for i := range 300 {
			file, err := os.Create(filepath.Join(others, fmt.Sprint(i)))
			if err != nil {
				t.Error(err)
				return
			}
			defer file.Close()
			files = append(files, file)
		}
		for n := 0; !over.Load(); n++ {
			how := unix.LOCK_EX
			if n/len(files)%2 == 1 {
				how = unix.LOCK_UN
			}
			_ = unix.Flock(int(files[n%len(files)].Fd()), how)
		}
	}()
	missed := 0
	for range 2000 {
		if _, pid := JournalHolder(dir); pid != os.Getpid() {
			missed++
		}
	}
	over.Store(true)
	<-done
	if missed > 0 {
		t.Errorf("missed %d of 2000 times", missed)
	}
}

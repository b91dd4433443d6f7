package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/must"
)

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

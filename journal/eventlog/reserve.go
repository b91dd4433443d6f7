package eventlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"jobd/journal/archive"
)

// What keeps others out of the journal, and keeps room for it: the lock, and the reserve.

// reserveFile holds blocks that are given back when the disk is full, so that what was begun can
// be ended.
const reserveFile = "reserve"

// Reserve watches the room that a journal has. Its methods are safe for
// concurrent use.
type Reserve struct {
	dir       string
	threshold int64
	size      int64
	free      func(dir string) (free, total int64, err error)

	mu   sync.Mutex
	held bool      // the reserve's blocks are allocated
	low  time.Time // since when Check fails; zero: it does not
}

// OpenReserve watches over the disk of a journal's folder. Below threshold free
// bytes, or a tenth of the disk where that is less, nothing new may begin; a quarter of it is
// reserved for what is under way.
func OpenReserve(dir string, threshold int64) (*Reserve, error) {
	r := &Reserve{dir: dir, threshold: threshold, free: freeSpace}
	_, total, err := r.free(dir)
	if err != nil {
		return nil, fmt.Errorf("open reserve: %w", err)
	}
	r.threshold = min(threshold, total/10)
	r.size = r.threshold / 4
	return r, nil
}

// Check fails, in words for an operator, where too little room is left to begin anything new.
func (r *Reserve) Check() error {
	_, why := r.Low()
	return why
}

// Low is Check, and tells since when that fails, as far as anybody has asked.
func (r *Reserve) Low() (since time.Time, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	why = r.check()
	switch {
	case why == nil:
		r.low = time.Time{}
	case r.low.IsZero():
		r.low = time.Now()
	}
	return r.low, why
}

// check is Check for callers that hold r.mu.
func (r *Reserve) check() error {
	free, _, err := r.free(r.dir)
	if err != nil {
		return fmt.Errorf("check the journal's disk: %w", err)
	}
	if !r.held && free >= r.threshold+r.size {
		r.held = r.allocate() == nil
		return nil
	}
	if free < r.threshold {
		return fmt.Errorf("journal %s: only %d MiB of its disk are free, and %d MiB are needed: no job is claimed", r.dir, free>>20, r.threshold>>20)
	}
	return nil
}

// Release gives the reserve's blocks back to the disk. Check reserves them again when there is
// room.
func (r *Reserve) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = false
	_ = os.Truncate(filepath.Join(r.dir, reserveFile), 0) // what cannot be given back was not there
}

// allocate takes the blocks. A file system that knows no preallocation does without a reserve.
func (r *Reserve) allocate() error {
	f, err := os.OpenFile(filepath.Join(r.dir, reserveFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return syscall.Fallocate(int(f.Fd()), 0, 0, r.size)
}

// Close gives the blocks back.
func (r *Reserve) Close() error {
	if err := os.Remove(filepath.Join(r.dir, reserveFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// freeSpace is what an ordinary user may still write on a folder's disk, and its size, in bytes.
func freeSpace(dir string) (free, total int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}

// lockWait is how long a new worker waits for the one before it to be gone.
const lockWait = 500 * time.Millisecond

// lock takes the journal for this process, waiting a moment for a holder that is
// on its way out.
func lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, archive.LockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock journal: %w", err)
	}
	for deadline := time.Now().Add(lockWait); ; time.Sleep(10 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock journal %s: %w", path, err)
		}
		if time.Now().After(deadline) {
			defer f.Close()
			return nil, fmt.Errorf("journal %s is in use by %s; every daemon needs a journal_dir of its own, or wait until this one has stopped", dir, holder(f))
		}
	}
	if err := sign(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock journal %s: %w", path, err)
	}
	return f, nil
}

// sign writes who holds the lock.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "process %d (%s)\n", os.Getpid(), filepath.Base(os.Args[0])), 0)
	return err
}

func holder(f *os.File) string {
	buf := make([]byte, 256)
	n, _ := f.ReadAt(buf, 0)
	if name := strings.TrimSpace(string(buf[:n])); name != "" {
		return name
	}
	return "another process"
}
